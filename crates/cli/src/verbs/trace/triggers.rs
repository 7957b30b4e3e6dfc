//! `tailbound trace triggers`: the triggers of a running process.

use serde::Serialize;
use tailbound_linux::trigger_control::TriggerControl;
use tailbound_trigger::TriggerState;

use crate::arguments::{TriggerArguments, TriggerRequest};
use crate::failure::Failure;
use crate::output::Output;

/// The triggers of a process, as JSON.
#[derive(Serialize)]
struct TriggerList {
    pid: u32,
    triggers: Vec<TriggerRow>,
}

#[derive(Serialize)]
struct TriggerRow {
    name: String,
    is_enabled: bool,
    copies: usize,
}

/// Switches triggers if that is asked for, and lists them.
pub fn carry_out(arguments: &TriggerArguments, output: &Output) -> Result<(), Failure> {
    let mut control = TriggerControl::connect(arguments.pid).map_err(Failure::from_error)?;
    match arguments.request.as_ref().unwrap_or(&TriggerRequest::List) {
        TriggerRequest::List => Ok(()),
        TriggerRequest::Enable { pattern } => control.enable(pattern),
        TriggerRequest::Disable { pattern } => control.disable(pattern),
    }
    .map_err(Failure::from_error)?;
    let triggers = control.triggers().map_err(Failure::from_error)?;
    let row = |trigger: &TriggerState| {
        let state = if trigger.is_enabled { "on" } else { "off" };
        vec![
            trigger.name.clone(),
            state.into(),
            trigger.copies.to_string(),
        ]
    };
    let rows: Vec<_> = triggers.iter().map(row).collect();
    let list = TriggerList {
        pid: arguments.pid,
        triggers: triggers
            .into_iter()
            .map(|it| TriggerRow {
                name: it.name,
                is_enabled: it.is_enabled,
                copies: it.copies,
            })
            .collect(),
    };
    output.rows(&["trigger", "state", "copies"], &rows, &list)
}
