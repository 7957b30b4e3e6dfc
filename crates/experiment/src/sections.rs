//! The subsystems in the report of a run: each has data, tables and pictures there.

use tailbound_causes_report::CausesSection;
use tailbound_chains_report::ChainsSection;
use tailbound_modes_report::ModesSection;
use tailbound_report::{BandsSection, ReportSection};

/// All sections: a new one is a line here.
pub const SECTIONS: [&dyn ReportSection; 4] =
    [&BandsSection, &CausesSection, &ChainsSection, &ModesSection];
