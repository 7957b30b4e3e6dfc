//! The format of the descriptions that this system reads.

use tailbound_balance::BalanceTable;
use tailbound_model::{DescriptionFormat, SectionKind};
use tailbound_sampling::SamplingCampaign;
use tailbound_topics::{Chains, Ports, Routes, Topics};

/// The core of the format with the sections of subsystems: a new one is a line here, `SectionKind::of::<S>()`.
///
/// The list is here, below every crate that reads a file and above every crate that may define a section.
pub static FORMAT: DescriptionFormat = DescriptionFormat::with(&[
    SectionKind::of::<Topics>(),
    SectionKind::of::<Chains>(),
    SectionKind::of::<Routes>(),
    SectionKind::of::<Ports>(),
    SectionKind::of::<SamplingCampaign>(),
    SectionKind::of::<BalanceTable>(),
]);
