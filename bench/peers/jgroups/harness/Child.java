package harness;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;

/** A process of the run, led by lines on its standard input and answering on its standard output. */
public final class Child {
    final Process process;
    private final String name;
    private final PrintStream orders;
    private final BufferedReader answers;

    Child(String name, Process process) {
        this.name = name;
        this.process = process;
        orders = new PrintStream(process.getOutputStream(), true);
        answers = process.inputReader();
    }

    public void tell(String order) {
        orders.println(order);
    }

    /** Waits for an answer that begins with `word` and gives the numbers after it. */
    public double[] await(String word) {
        String line;
        try {
            line = answers.readLine();
        } catch (IOException closed) {
            line = null;
        }
        if (line == null) {
            throw new Refused(Refused.FAILED, name + " ended before it said \"" + word + "\"; its reason is above");
        }
        String[] words = line.split(" ");
        if (!words[0].equals(word)) {
            throw new Refused(Refused.FAILED, name + " said \"" + line + "\" where \"" + word + "\" was due");
        }
        double[] numbers = new double[words.length - 1];
        for (int at = 0; at < numbers.length; at++) {
            numbers[at] = Double.parseDouble(words[at + 1]);
        }
        return numbers;
    }
}
