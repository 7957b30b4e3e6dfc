//! Arguments of `sample`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tailbound_sampling::ModelForm;
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
    /// Measure only these values of an axis, such as `services.web.users.count=60,90`: one host of several has a part of the
    /// campaign so. May be repeated for other axes.
    #[arg(long, value_name = "KEY=VALUES", value_parser = some_values)]
    pub only: Vec<(String, String)>,
}

/// A key and values of its axis.
fn some_values(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, values)) if !key.is_empty() && !values.is_empty() => {
            Ok((key.to_owned(), values.to_owned()))
        }
        _ => Err("write KEY=VALUE, or several values with commas".to_owned()),
    }
}

/// The forms of the model of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelFormName {
    /// A Gaussian process through the measured points.
    Regression,
    /// One queue at the speed of the share, fitted to the same points.
    Queue,
}

impl From<ModelFormName> for ModelForm {
    fn from(name: ModelFormName) -> Self {
        match name {
            ModelFormName::Regression => Self::Regression,
            ModelFormName::Queue => Self::Queue,
        }
    }
}
