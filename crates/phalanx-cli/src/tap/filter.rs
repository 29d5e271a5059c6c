//! The filter of the command line.

use phalanx_runtime::tap::Form;
use phalanx_tap::{Filter, FilterError, NoNames};

use crate::exit::{Exit, Failure};

/// The filter in one text: packets of these groups for which `words` hold.
pub(super) fn text(groups: &[String], words: &[String], form: Form) -> Result<String, Failure> {
    let words = words.join(" ");
    check(&words, form)?;
    if groups.is_empty() {
        return Ok(words);
    }
    if let Some(group) = groups.iter().find(|group| group.contains('"')) {
        let what = format!("-g {group}: a filter cannot name a group with a quotation mark; use space and a number");
        return Err(Failure::new(Exit::Usage, what));
    }
    let quoted: Vec<String> = groups.iter().map(|group| format!("\"{group}\"")).collect();
    let groups = format!("group ({})", quoted.join(" or "));
    let all = if words.trim().is_empty() { groups } else { format!("{groups} and ({words})") };
    // Longer than the words alone, and nested deeper.
    check(&all, form)?;
    Ok(all)
}

fn check(text: &str, form: Form) -> Result<(), Failure> {
    let compiles =
        |filter: Filter| form.layouts().iter().try_for_each(|layout| filter.compile(*layout, &NoNames, 1).map(drop));
    Filter::parse(text).and_then(compiles).map_err(|error| refused(text, &error))
}

/// What is wrong, and below it the filter with a mark where it is wrong.
fn refused(text: &str, error: &FilterError) -> Failure {
    // A tab or a line end would move the mark.
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let before = text.get(..error.place).unwrap_or(text).chars().count();
    Failure::new(Exit::Usage, format!("the filter, {error}\n  {shown}\n  {:before$}^", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(groups: &[&str], words: &[&str], form: Form) -> Result<String, String> {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        text(&owned(groups), &owned(words), form).map_err(|failure| {
            assert_eq!(failure.exit, Exit::Usage);
            failure.what
        })
    }

    #[test]
    fn groups_come_first_and_words_are_joined() {
        assert_eq!(made(&[], &[], Form::Sealed).as_deref(), Ok(""));
        assert_eq!(made(&[], &["type data", "or", "in"], Form::Sealed).as_deref(), Ok("type data or in"));
        assert_eq!(made(&["a b"], &[" "], Form::Sealed).as_deref(), Ok("group (\"a b\")"));
        let both = "group (\"a\" or \"b\") and (in or out)";
        assert_eq!(made(&["a", "b"], &["in or out"], Form::Clear).as_deref(), Ok(both));
        assert!(made(&["a\"b"], &[], Form::Sealed).is_err());
    }

    #[test]
    fn a_mark_stands_where_the_filter_is_wrong() {
        let wrong = made(&["g"], &["größe = 1"], Form::Sealed).expect_err("no such word");
        let lines: Vec<&str> = wrong.lines().collect();
        assert_eq!(lines[1..], ["  größe = 1", "  ^"], "{wrong}");
        let wrong = made(&[], &["type\tdata and", "frame ack"], Form::Sealed).expect_err("it is sealed");
        let lines: Vec<&str> = wrong.lines().collect();
        assert_eq!(lines[1..], ["  type data and frame ack", "                      ^"], "{wrong}");
        assert!(made(&[], &["host 10.0.0.1"], Form::Clear).is_err(), "clear has no addresses");
        let long = "in or ".repeat(680) + "in";
        assert!(made(&[], &[&long], Form::Sealed).is_ok());
        assert!(made(&["a-group"], &[&long], Form::Sealed).is_err(), "together they are too long");
    }
}
