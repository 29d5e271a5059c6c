//! The captions below a picture: the violations, their proofs, and the meaning of the signs.

use std::fmt::Write;

use super::draw::{Paper, letters, symbol};
use super::scene::{Caption, What};
use super::text::{escape, seconds, wrap};

impl Paper<'_> {
    /// Draws the violations, and the meaning of the numbers.
    pub(super) fn captions(&mut self, mut y: f64) -> f64 {
        let scene = self.scene;
        let letters_max = letters(self.width);
        for Caption { code, text, at_ns, proofs } in &scene.captions {
            let text = format!("{code} at {} s: {text}", seconds(*at_ns));
            // Bold letters are wider.
            for line in wrap(&text, letters_max * 4 / 5) {
                y += 15.0;
                let _ = writeln!(self.out, "<text class=\"caption\" x=\"16\" y=\"{y:.1}\">{}</text>", escape(&line));
            }
            for proof in proofs {
                for (i, line) in wrap(&proof.text, letters_max - 6).iter().enumerate() {
                    y += 14.0;
                    if i == 0 {
                        let _ = writeln!(
                            self.out,
                            "<circle class=\"number\" cx=\"28\" cy=\"{:.1}\" r=\"6.5\"/>\
                             <text class=\"numbertext\" x=\"28\" y=\"{:.1}\">{}</text>",
                            y - 3.5,
                            y,
                            proof.number
                        );
                    }
                    let _ = writeln!(self.out, "<text class=\"proof\" x=\"42\" y=\"{y:.1}\">{}</text>", escape(line));
                }
            }
        }
        for remark in scene.remarks.iter().flat_map(|remark| wrap(remark, letters_max)) {
            y += 14.0;
            let _ = writeln!(self.out, "<text class=\"remark\" x=\"16\" y=\"{y:.1}\">{}</text>", escape(&remark));
        }
        y
    }

    /// Draws the meaning of the signs, in rows.
    pub(super) fn legend(&mut self, y: f64) -> f64 {
        let _ = writeln!(
            self.out,
            "<line class=\"tick\" x1=\"16\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
            self.width - 16.0
        );
        let (mut x, mut y) = (16.0, y + 16.0);
        let line = |class: &str, x: f64, y: f64| {
            format!("<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>", x + 18.0)
        };
        let dot = |class: &str, x: f64, y: f64| {
            format!("<circle class=\"arrow {class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>", x + 9.0)
        };
        let ring = |x: f64, y: f64| format!("<circle class=\"ring\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5.5\"/>", x + 9.0);
        let sign = |what: What| move |x: f64, y: f64| symbol(what, x + 9.0, y);
        type Sample<'s> = Box<dyn Fn(f64, f64) -> String + 's>;
        let samples: Vec<(Sample<'_>, &str)> = vec![
            (Box::new(|x, y| line("cell", x, y)), "a cell view is installed"),
            (Box::new(|x, y| line("group", x, y)), "a group view is installed"),
            (Box::new(|x, y| line("arrow", x, y)), "a multicast (F fifo, C causal, T total, u uniform)"),
            (Box::new(|x, y| dot("plain", x, y)), "delivered"),
            (Box::new(|x, y| dot("uniform", x, y)), "delivered as uniform"),
            (Box::new(ring), "proves what is broken"),
            (Box::new(sign(What::Starts)), "starts"),
            (Box::new(sign(What::Crashes)), "crashes"),
            (Box::new(sign(What::IsExcluded)), "is told that it is excluded"),
            (Box::new(sign(What::HearsNoQuorum)), "hears no quorum"),
            (Box::new(|x, y| line("stop", x, y)), "is stopped"),
            (Box::new(sign(What::TakesState)), "state taken or given"),
            (Box::new(|x, y| line("mark", x, y)), "something is done to the cell"),
        ];
        for (sample, text) in samples {
            let width = 44.0 + 6.2 * text.len() as f64;
            if x + width > self.width {
                (x, y) = (16.0, y + 16.0);
            }
            let drawn = sample(x, y);
            let _ = writeln!(
                self.out,
                "{drawn}<text class=\"label good\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                x + 24.0,
                y + 3.5
            );
            x += width;
        }
        y += 16.0;
        let text =
            "Time runs down; close moments are pulled apart and long pauses shortened. Point at a sign for more.";
        let _ = writeln!(self.out, "<text class=\"remark\" x=\"16\" y=\"{y:.1}\">{text}</text>");
        y
    }
}
