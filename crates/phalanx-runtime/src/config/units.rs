//! Durations and sizes as text, always with a unit.

use std::time::Duration;

const DURATIONS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Parses a duration such as `150ms`, `2s` or `1.5min`.
///
/// # Errors
/// The problem, for people.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanos = parse(text, &DURATIONS, "a duration", "150ms")?;
    Ok(Duration::from_nanos(nanos))
}

/// Parses a size in bytes such as `64KiB`, `1MiB` or `1500B`.
///
/// # Errors
/// The problem, for people.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse(text, &SIZES, "a size", "64KiB")
}

/// Formats a duration in the largest unit that expresses it exactly.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    show(nanos, &DURATIONS)
}

/// Formats a size in the largest binary unit that expresses it exactly.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES[..4])
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |unit: &&(&str, u64)| value != 0 && value.is_multiple_of(unit.1);
    let (name, scale) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{}{name}", value / scale)
}

fn parse(text: &str, units: &[(&str, u64)], what: &str, example: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(format!("'{text}' is not {what}; write it like \"{example}\""));
    }
    if unit.is_empty() {
        return Err(format!("'{text}' has no unit; write {what} like \"{example}\""));
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        return Err(format!("'{unit}' is not a unit of {what}; known are {}", known.join(", ")));
    };
    decimal(number, *scale)
        .ok_or_else(|| format!("'{text}' is out of range, or not a whole number of the smallest unit"))
}

/// `number` times `scale`; `None` unless that is a whole number that fits `u64`.
fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let power = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u128 = fraction.parse().ok()?;
    let value = whole.checked_mul(power)?.checked_add(fraction)?.checked_mul(u128::from(scale))?;
    if !value.is_multiple_of(power) {
        return None;
    }
    u64::try_from(value / power).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_are_exact() {
        assert_eq!(parse_duration("150ms"), Ok(Duration::from_millis(150)));
        assert_eq!(parse_duration(" 1.5 s "), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0.25us"), Ok(Duration::from_nanos(250)));
        assert!(parse_duration("150").is_err_and(|e| e.contains("no unit")));
        assert!(parse_duration("150m").is_err_and(|e| e.contains("not a unit")));
        assert!(parse_duration("0.5ns").is_err());
        for bad in ["", "ms", "1.2.3s", ".", ".ms", "-1s", "99999999999999999999s", "18446744073709551615min"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_know_binary_and_decimal_units() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("0.5KiB"), Ok(512));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert_eq!(parse_size("7B"), Ok(7));
        assert!(parse_size("0.3KiB").is_err());
        assert!(parse_size("64k").is_err());
        assert!(parse_size("4096").is_err_and(|e| e.contains("64KiB")));
    }

    #[test]
    fn what_is_shown_reads_back() {
        for nanos in [0, 1, 999, 1_000, 1_500, 2_000_000, 900_000_000, 60_000_000_000, 61_000_000_000] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1023, 1024, 1500, 1 << 20, (8 << 20) + 1024, u64::MAX] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
        assert_eq!(show_duration(Duration::from_millis(900)), "900ms");
        assert_eq!(show_size(8 << 20), "8MiB");
    }
}
