//! Execution times at other clock frequencies, and on other hosts, predicted from counted events.
//!
//! The model is that of Snowdon, van der Linden, Petters and Heiser, *Accurate Run-Time Prediction of Performance
//! Degradation under Frequency Scaling* (OSPERT 2007), section 3: an execution time is a sum over the clocks of a
//! platform, `T = Σ C_x / f_x` (equation 1), and the cycles `C_x` of a clock are a linear combination of counted events
//! (equations 2 and 3). What differs here:
//!
//! - one regression over all programs and set points, relative errors least, instead of one for each clock;
//! - coefficients are not negative: an event cannot give time back;
//! - terms are chosen by the lowest Bayesian information criterion over all subsets, exactly;
//! - every error is that of a program that the regression has not seen.
//!
//! The crate is pure: texts come in, results go out. The assumptions of the model: the core waits for memory (no
//! overlap that depends on a clock), the work of a program is the same at every set point, and input and output take no
//! time.

mod demand;
mod design;
mod error;
mod fit;
mod frequency;
mod least_squares;
mod model;
mod perf_stat;
mod power;
mod run_table;
mod selection;
mod validation;

pub use demand::{CountedWorkload, CycleDemand};
pub use error::{ModelError, RecordingError};
pub use fit::{Fit, Premise, Term};
pub use frequency::{Frequency, ParseFrequencyError};
pub use model::{FrequencyModel, ModelSource, SCHEMA_VERSION};
pub use power::{Power, SetPointPower, read_set_points};
pub use run_table::{Run, RunTable, SetPoint, SetPointNotation};
pub use validation::{CrossValidation, ErrorSummary, PerformanceErrors, ProgramError};
