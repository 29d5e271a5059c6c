//! Requests of an operator's command, and their answers.

use phalanx_core::{CellInstance, CommandError, Incarnation, Instant, ReformWhen, ViewNumber};
use phalanx_driver::Driver;

use crate::handler::Handler;
use crate::local::{LocalCell, LocalError, Request};
use crate::node::Node;

/// The request that is being carried out.
#[derive(Debug, Default)]
pub(super) struct Requests(Option<Pending>);

#[derive(Debug)]
struct Pending {
    /// The incarnation that received it.
    of: Incarnation,
    /// The generation of the instance it was in; 0: none.
    before: u16,
}

impl Requests {
    /// Takes a request, or answers the last one. `refused`: why a reform was refused.
    pub(super) fn look<D: Driver>(
        &mut self,
        now: Instant,
        node: &mut Node<D>,
        local: &LocalCell,
        refused: Option<String>,
        handler: &mut impl Handler,
    ) -> Result<(), LocalError> {
        if let Some(request) = local.take_request(node.incarnation()) {
            let outcome = match request {
                Request::Reform => node.reform(now, ReformWhen::Asked, handler),
                Request::ReformIfAllProvedDead => node.reform(now, ReformWhen::AllProvedDead, handler),
                Request::FoundAnew => node.found_anew(now, handler),
            };
            let of = node.incarnation();
            match outcome {
                Ok(()) => self.0 = Some(Pending { of, before: instance(node).generation() }),
                Err(error) => return local.give_answer(of, &Err(text(&error))),
            }
        }
        let Some(Pending { of, before }) = &self.0 else { return Ok(()) };
        let (of, now_in) = (*of, instance(node).generation());
        let outcome = match refused {
            Some(why) => Err(why),
            // A reform is done when the process is in a view of a later generation, not when the command was accepted.
            None if now_in > *before => {
                let view = node.process().cell_view().map_or(ViewNumber::NONE, |view| view.view);
                Ok(format!("in view {view} of generation {now_in}"))
            }
            None => return Ok(()),
        };
        self.0 = None;
        local.give_answer(of, &outcome)
    }
}

fn instance<D: Driver>(node: &Node<D>) -> CellInstance {
    node.process().cell_view().map_or(CellInstance::NONE, |view| view.instance)
}

fn text(error: &CommandError) -> String {
    match error {
        CommandError::Over => "it is about to leave".to_owned(),
        other => other.to_string(),
    }
}
