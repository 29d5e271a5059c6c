//! How domains are called.

/// How a domain is called in a text.
pub(crate) fn shown(name: &str) -> String {
    if name.is_empty() { "the state".to_owned() } else { format!("domain {name} of the state") }
}
