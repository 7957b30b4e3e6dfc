//! The reservation of one subject, as options.

use clap::Args;
use tailbound_model::{BackendKind, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_time::Duration;

use super::annotations::ANNOTATION_PREFIX;
use super::values::{back_end, budget_scope};
use crate::failure::Failure;

/// `ReservationArguments` are the options of a reservation without a description. The verb that has them puts the
/// arguments that name a subject (a command, a unit, a container) into the group `subject`.
#[derive(Debug, Args)]
pub struct ReservationArguments {
    /// Budget of the reservation.
    #[arg(short, long, requires = "subject")]
    pub budget: Option<Duration>,
    /// Period of the reservation.
    #[arg(short, long, requires = "subject")]
    pub period: Option<Duration>,
    /// CPUs of the reservation, such as `0` or `0,1` where the back end takes several.
    #[arg(
        short,
        long,
        requires = "subject",
        default_value = "0",
        value_delimiter = ','
    )]
    pub cpus: Vec<u32>,
    /// Whether each of the CPUs has the budget, or all of them together have one.
    #[arg(long, requires = "subject", default_value_t, value_parser = budget_scope())]
    pub budget_scope: BudgetScope,
    /// Fixed priority of the reservation, 1 to 90.
    #[arg(long, requires = "subject", default_value_t = 90)]
    pub priority: u8,
    /// Back end that enforces the reservation.
    #[arg(long, requires = "subject", default_value_t, value_parser = back_end)]
    pub backend: BackendKind,
}

/// Where the options of a reservation are written, which decides how an error spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionPlace {
    /// On a command line: `--budget 2ms`.
    CommandLine,
    /// In the annotations of a container: `tailbound.budget=2ms`.
    Annotations,
}

impl OptionPlace {
    /// The name of an option as its user writes it.
    pub fn spell(self, option: &str) -> String {
        match self {
            Self::CommandLine => format!("--{option}"),
            Self::Annotations => format!("{ANNOTATION_PREFIX}{option}"),
        }
    }

    /// An option with a value, as its user writes them.
    fn example(self, option: &str, value: &str) -> String {
        let separator = match self {
            Self::CommandLine => ' ',
            Self::Annotations => '=',
        };
        format!("{}{separator}{value}", self.spell(option))
    }
}

impl ReservationArguments {
    /// The budget of the back end in its period, on its CPUs. `place` is where the options were written.
    ///
    /// # Errors
    /// The back end needs a budget that is not given, has none, or the CPUs cannot give the budget in its period.
    pub fn interface(&self, place: OptionPlace) -> Result<ResourceInterface, Failure> {
        let backend = self.backend;
        let priority = Priority(self.priority);
        let cpus = self.cpus.iter().copied().map(Cpu).collect();
        match (self.budget, self.period) {
            (None, None) if !backend.has_budget() => {
                Ok(ResourceInterface::without_budget(priority, cpus))
            }
            _ if !backend.has_budget() => Err(Failure::with_help(
                format!("back end {backend} enforces no budget"),
                format!(
                    "leave {} and {} out, or choose another back end",
                    place.spell("budget"),
                    place.spell("period")
                ),
            )),
            (Some(budget), Some(period)) => {
                let interface = ResourceInterface {
                    budget,
                    period,
                    priority,
                    cpus,
                    budget_scope: self.budget_scope,
                    windows: Vec::new(),
                    slack: Vec::new(),
                };
                fits_in_period(&interface, place)?;
                Ok(interface)
            }
            _ => Err(Failure::with_help(
                format!("a reservation of {backend} needs a budget and a period"),
                format!(
                    "for example: {} {}",
                    place.example("budget", "2ms"),
                    place.example("period", "10ms")
                ),
            )),
        }
    }
}

/// Refuses a budget that the CPUs cannot give in the period.
fn fits_in_period(interface: &ResourceInterface, place: OptionPlace) -> Result<(), Failure> {
    let (budget, period) = (interface.budget, interface.period);
    let longest = interface.longest_budget();
    if !budget.is_zero() && budget <= longest {
        return Ok(());
    }
    let help = match (interface.shares_budget(), interface.cpus.len()) {
        (true, cpus) => {
            format!("a budget lies above zero, and {cpus} CPUs give at most {longest} in a period")
        }
        (false, 1) => "a budget lies above zero and at most at its period".to_owned(),
        (false, _) => format!(
            "a budget lies above zero and at most at its period; for one budget of all CPUs together: {}",
            place.example("budget-scope", "all-cpus")
        ),
    };
    let message = format!("a budget of {budget} does not fit in a period of {period}");
    Err(Failure::with_help(message, help))
}
