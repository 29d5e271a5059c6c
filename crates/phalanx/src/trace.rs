//! The trace that the configuration asks for.

use phalanx_runtime::Recorder;
use phalanx_runtime::config::Config;
use phalanx_trace::TraceError;

use crate::error::StartError;

/// What records what a process sees and does. `lost` is called when the trace cannot be written any more.
pub(crate) fn recorder(
    config: &Config,
    lost: impl FnMut(&TraceError) + Send + 'static,
) -> Result<Recorder, StartError> {
    let Some(directory) = &config.trace else { return Ok(Recorder::off()) };
    Recorder::to_directory(&config.cell, directory, Box::new(lost)).map_err(|error| {
        let place = directory.display();
        StartError::Host(format!(
            "cannot write traces to {place}: {error}; name another directory, or leave `trace` out"
        ))
    })
}
