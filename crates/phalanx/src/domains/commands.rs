//! What clients submit, executed at its place among the messages of the group.

use super::place::Changing;
use crate::message::Message;

/// Applies messages to the states that they are for. What clients submit is executed at its place among the others, by the
/// part that is added to `executed`.
pub(super) fn apply_with_clients(parts: &mut [Changing<'_>], messages: &[Message], executed: &mut Vec<usize>) {
    let tables: Vec<_> = parts.iter().filter(|part| part.is_table()).filter_map(|part| part.place.index).collect();
    let is_submit = |message: &Message| message.domain.is_some_and(|domain| tables.contains(&domain));
    for run in messages.chunk_by(|one, other| !is_submit(one) && !is_submit(other)) {
        match run {
            [message] if is_submit(message) => executed.extend(take_command(parts, message)),
            _ => {
                for Changing { place, state, .. } in parts.iter_mut().filter(|part| part.place.is_in) {
                    place.runs(run).for_each(|run| state.apply(run));
                }
            }
        }
    }
}

/// A table takes the command of a client. A message that was not executed before is executed by the state that it serves,
/// which is returned.
fn take_command(parts: &mut [Changing<'_>], message: &Message) -> Option<usize> {
    let table = parts.iter().position(|part| part.is_table() && part.place.index == message.domain)?;
    let execution = parts[table].state.take(message)?;
    let submitted = Message { payload: message.payload.slice_ref(execution.payload), ..message.clone() };
    let served = parts[table].serves;
    let state = parts.iter_mut().find(|part| part.place.is_in && Some(part.at) == served);
    // A group lists the table beside the state that it serves, and all members have both.
    let result = state.and_then(|part| part.state.execute(&submitted)).unwrap_or_default();
    parts[table].state.executed(message, execution, result);
    served
}
