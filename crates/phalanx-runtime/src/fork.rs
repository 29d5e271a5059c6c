//! Dealing with a parent's thread in a forked child.

use std::thread::JoinHandle;

/// Forgets the handle of a thread that does not exist in this process. Dropping the handle would detach it. Its thread
/// id may by now belong to a thread that the child started, whose own handle could then not be joined.
#[expect(clippy::mem_forget, reason = "the drop is what must not happen")]
pub(crate) fn forget(thread: Option<JoinHandle<()>>) {
    std::mem::forget(thread);
}
