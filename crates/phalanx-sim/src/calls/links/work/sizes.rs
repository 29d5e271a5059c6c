//! Heavy-tailed lengths and memoryless (exponential) gaps. Both use integers only, so they are the same on any machine.

use super::Rng;

/// Draws the length of a message. Six of ten are shorter than 1 KiB, one of two hundred has 1 to 8 MiB, and more than
/// half of the bytes are in messages of more than 64 KiB (like the Hadoop cluster's workload W4 of Homa, SIGCOMM 2018).
pub(crate) fn draw_len(rng: &mut Rng) -> usize {
    let at = rng.below(1_000);
    let (_, from, to) = *CLASSES.iter().find(|(below, _, _)| at < *below).unwrap_or(&CLASSES[0]);
    // Each octave is equally likely, and each length within it.
    let octave = 1_usize << (from + rng.below(u64::from(to - from)) as u32);
    octave + rng.below(octave as u64) as usize
}

/// Cumulative shares in thousandths, and the exponents of two between which the lengths of that class lie.
const CLASSES: [(u64, u32, u32); 5] = [(600, 6, 10), (820, 10, 13), (950, 13, 16), (995, 16, 20), (1_000, 20, 23)];

/// Upper bounds of the length classes in results.
pub(crate) const CLASS_BYTES: [usize; 5] = [1 << 10, 8 << 10, 64 << 10, 1 << 20, 8 << 20];

/// Draws the time to the next event of a Poisson process, `mean_ns` on average. The method is von Neumann's ("Various
/// techniques used in connection with random digits", 1951), which compares numbers and needs no logarithm.
pub(crate) fn draw_gap_ns(rng: &mut Rng, mean_ns: u64) -> u64 {
    let mut whole = 0;
    loop {
        let first = rng.next_u64() >> 32;
        let (mut last, mut falling) = (first, 1_u32);
        loop {
            let next = rng.next_u64() >> 32;
            if next > last {
                break;
            }
            (last, falling) = (next, falling + 1);
        }
        if falling % 2 == 1 {
            let part = (u128::from(mean_ns) * u128::from(first)) >> 32;
            return mean_ns * whole + part as u64;
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut rng = Rng::new(3);
        let gaps: Vec<u64> = (0..100_000).map(|_| draw_gap_ns(&mut rng, 1_000)).collect();
        let mean = gaps.iter().sum::<u64>() / 100_000;
        assert!((985..1_015).contains(&mean), "{mean}");
        // Beyond one, two and three means there are 1/e, 1/e^2, 1/e^3 of a hundred thousand.
        for (beyond, expected) in [(1_000, 36_788_u64), (2_000, 13_534), (3_000, 4_979)] {
            let count = gaps.iter().filter(|gap| **gap > beyond).count() as u64;
            assert!(count.abs_diff(expected) < 600, "{count} of {expected}");
        }
    }

    #[test]
    fn lengths_have_a_heavy_tail() {
        let mut rng = Rng::new(3);
        let lens: Vec<usize> = (0..100_000).map(|_| draw_len(&mut rng)).collect();
        let small = lens.iter().filter(|len| **len < 1 << 10).count();
        assert!((59_000..61_000).contains(&small), "{small}");
        let all: usize = lens.iter().sum();
        let long: usize = lens.iter().filter(|len| **len > 64 << 10).sum();
        assert!(2 * long > all);
        assert!(lens.iter().all(|len| (64..8 << 20).contains(len)));
    }
}
