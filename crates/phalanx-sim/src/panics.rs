//! Catches panics inside a seed, keeps them off standard error, and reports them with their location.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic;
use std::sync::Once;

thread_local! {
    /// Whether a seed runs on this thread, so that its panics are results.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `f` with this thread's panics kept off standard error. Panics of other threads are printed as before.
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                let place = info.location().map_or_else(String::new, ToString::to_string);
                PLACE.with_borrow_mut(|kept| *kept = place);
            } else {
                before(info);
            }
        }));
    });
    /// Resets the flag, also on unwinding.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    INSIDE.set(true);
    let _leave = Leave;
    f()
}

/// Message and location of a caught panic.
pub(crate) fn describe(payload: &(dyn Any + Send)) -> String {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".into());
    let place = PLACE.with_borrow_mut(std::mem::take);
    format!("{said} ({place})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        let outcome = panic::catch_unwind(|| quietly(|| assert_eq!(1 + 1, 3, "sums")));
        let text = describe(outcome.expect_err("it panics").as_ref());
        assert!(text.contains("sums"), "{text}");
        assert!(text.contains("panics.rs"), "{text}");
        assert_eq!(quietly(|| 5), 5);
    }
}
