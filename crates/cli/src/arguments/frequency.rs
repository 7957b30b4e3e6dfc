//! Arguments of `tailbound model`, and of predictions at other clock frequencies.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tailbound_execution_time::SetPointNotation;

use super::ExportArguments;

/// Arguments of `model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    /// The kind of model.
    #[command(subcommand)]
    pub what: ModelWhat,
}

/// The kinds of models.
#[derive(Debug, Subcommand)]
pub enum ModelWhat {
    /// Execution times at other clock frequencies and on other hosts, from counted events.
    Frequency(FrequencyModelArguments),
}

/// Arguments of `model frequency`.
#[derive(Debug, Args)]
pub struct FrequencyModelArguments {
    /// Recorded runs (CSV): `program`, `cpu_hz` and other clocks, `time_ns`, and a column for each counted event; or
    /// in place of time and events a column `perf_stat` with files of `perf stat -x,` or `-j`.
    pub data: PathBuf,
    /// The set points with their power (CSV): the clocks, `busy_mw` and `idle_mw`.
    #[arg(long, value_name = "FILE")]
    pub set_points: Option<PathBuf>,
    /// The most counters that a model may use: those that the processor counts at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub most_counters: u32,
    /// Write the model (JSON).
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Execution times at other clock frequencies.
#[derive(Debug, Args)]
#[group(skip)]
pub struct FrequencyArguments {
    /// Predict at other clock frequencies by this model, which `tailbound model frequency` wrote.
    #[arg(
        long,
        value_name = "FILE",
        requires = "counters",
        requires = "frequency",
        conflicts_with = "calibration"
    )]
    pub frequency_model: Option<PathBuf>,
    /// With a frequency model: the service's counted events (CSV as for `tailbound model frequency`), of the runs in
    /// which its execution times were measured. Without clocks in it: measured on another host.
    #[arg(long, value_name = "FILE", requires = "frequency_model")]
    pub counters: Option<PathBuf>,
    /// The program of --counters, where there are several.
    #[arg(long, value_name = "NAME", requires = "counters")]
    pub program: Option<String>,
    /// The set point at which the execution times were measured, where --counters has several.
    #[arg(long, value_name = "SET-POINT", requires = "counters")]
    pub measured_at: Option<SetPointNotation>,
    /// The frequency of the core, such as 1.2GHz, all clocks, such as cpu=1.2GHz,mem=800MHz, or `all` set points of
    /// the model, of which the one with the least energy is marked.
    #[arg(long, value_name = "SET-POINT", requires = "frequency_model")]
    pub frequency: Vec<FrequencyChoice>,
}

/// Set points of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrequencyChoice {
    /// All of the model.
    All,
    /// One.
    One(SetPointNotation),
}

impl FromStr for FrequencyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            other => other.parse().map(Self::One),
        }
    }
}
