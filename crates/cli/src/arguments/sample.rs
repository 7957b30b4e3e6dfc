//! Arguments of `sample`.

use std::path::PathBuf;

use clap::Args;
use tailbound_time::Duration;

/// Arguments of `sample`.
#[derive(Debug, Args)]
pub struct SampleArguments {
    /// The description (TOML) with a table [sampling].
    pub file: PathBuf,
    /// The folder of the journal and the data set; `out/NAME-samples` beside the description if left out. A campaign
    /// that was cut off goes on from its journal.
    #[arg(short, long)]
    pub out: Option<PathBuf>,
    /// The seed, in place of the description's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The time after which no other point begins, in place of the description's; what was spent before a campaign was
    /// cut off counts.
    #[arg(long, value_name = "TIME")]
    pub time_budget: Option<Duration>,
}
