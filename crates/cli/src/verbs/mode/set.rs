//! `tailbound mode set`: change to another mode.

use tailbound_control::Client;
use tailbound_modes::control::ModesClient;
use tailbound_modes::manager::Report;
use tailbound_modes::transition::{Cause, Ending};

use super::exports;
use crate::arguments::ModeSetArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Changes, and prints what came of it.
pub fn carry_out(
    client: &mut Client,
    arguments: &ModeSetArguments,
    output: &Output,
) -> Result<(), Failure> {
    let report = client.set_mode(&arguments.mode).map_err(super::failure)?;
    exports::tell(&report, &arguments.export, output)?;
    match verdict(&report) {
        None => Ok(()),
        Some(verdict) => Err(Failure::Verdict(verdict)),
    }
}

/// Why the mode does not hold, if so, and what does.
fn verdict(report: &Report) -> Option<String> {
    let Ending::GivenUp(cause) = &report.outcome.ending else {
        return None;
    };
    let back = match &report.rolled_back {
        None if *cause == Cause::Preempted => {
            "the later request goes on from where this one was".to_owned()
        }
        None => "nothing was taken back; see `tailbound mode list`".to_owned(),
        Some(back) if back.outcome.ending == Ending::Completed => {
            format!("mode `{}` holds again", report.from)
        }
        Some(_) => format!(
            "mode `{}` holds again, but not in every domain; see `tailbound mode list`",
            report.from
        ),
    };
    Some(format!(
        "the change to mode `{}` was given up: {cause}; {back}",
        report.to
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::change_answer::example;
    use super::*;

    #[test]
    fn what_holds_after_a_change_that_was_given_up_is_told() {
        let mut report = example::given_up();
        let said = verdict(&report).unwrap();
        assert!(said.contains("has not answered within 100ms"), "{said}");
        assert!(said.ends_with("mode `run` holds again"), "{said}");
        report.rolled_back.as_mut().unwrap().outcome.ending =
            Ending::Partly([("arm".to_owned(), example::no_answer())].into());
        let said = verdict(&report).unwrap();
        assert!(said.contains("not in every domain"), "{said}");
        report.rolled_back = None;
        report.outcome.ending = Ending::GivenUp(Cause::Preempted);
        let said = verdict(&report).unwrap();
        assert!(said.contains("the later request goes on"), "{said}");
        assert_eq!(verdict(&example::completed()), None);
    }
}
