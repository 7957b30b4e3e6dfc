//! In which order domains change.

use tailbound_model::ChangePolicy;

/// Whether one domain has to be done before the next one begins.
pub(super) fn is_one_by_one(policy: ChangePolicy) -> bool {
    matches!(policy, ChangePolicy::Sequential | ChangePolicy::Boost)
}

/// Whether all that shrink have to be done before any grows.
pub(super) fn grows_last(policy: ChangePolicy) -> bool {
    policy == ChangePolicy::Batch
}

/// Whether agents that wait for an answer are boosted, and if so, only if they have no budget.
pub(super) fn boosts(policy: ChangePolicy) -> Option<bool> {
    match policy {
        ChangePolicy::Boost => Some(false),
        ChangePolicy::Prompt => Some(true),
        _ => None,
    }
}

/// How many agents on one CPU are boosted at a time. With several the next one works while an answer is
/// on its way; they share what each boost allows.
pub(super) fn boosts_at_once(policy: ChangePolicy) -> usize {
    match policy {
        ChangePolicy::Prompt => 3,
        _ => 1,
    }
}
