//! One description's modes at a time.

use crate::control::{ModesRefusal, ModesStatus, RunningDescription};
use crate::table::ModeTable;

/// Refuses the modes of a table in place of those that are known, unless it has all of their domains. The others
/// would be left in whatever mode they are, with agents that nobody speaks to any more.
///
/// # Errors
/// What is known, and what can be done.
pub fn refuse_other(
    table: &ModeTable,
    status: &ModesStatus,
    description: Option<&RunningDescription>,
) -> Result<(), ModesRefusal> {
    let new = table.in_mode(table.initial()).domains;
    let mut left = status
        .state
        .domains
        .keys()
        .filter(|domain| !new.contains_key(*domain));
    let Some(one) = left.next() else {
        return Ok(());
    };
    let domains: Vec<&str> = status.state.domains.keys().map(String::as_str).collect();
    let of = description.map_or_else(
        || "an applied description".to_owned(),
        |description| description.file.display().to_string(),
    );
    let why = format!(
        "the modes of {of} are known, and they change the reservations of {}, while this description has no \
         \"{one}\"; put all domains into one description, or take those back first: `tailbound revert DOMAIN` \
         for each, or `tailbound revert --all` for all that is in force",
        domains.join(", "),
    );
    Err(ModesRefusal::OthersKnown { why })
}
