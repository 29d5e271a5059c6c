//! What a forked child does with a thread of its parent's.

use std::thread::JoinHandle;

/// Lets go of a thread that is not in this process. Not by dropping the handle: its number may by now be that of another
/// thread, one that the child started, which would be taken from whoever is to join it.
#[expect(clippy::mem_forget, reason = "the drop is what must not happen")]
pub(crate) fn forget(thread: Option<JoinHandle<()>>) {
    std::mem::forget(thread);
}
