//! Modes that are added while the others are in use.

use tailbound_time::Clock;

use super::{Agents, HostModeManager, Reservations};
use crate::table::ModeTable;
use crate::transition::{Transition, TransitionError};

/// Why modes are not added. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdditionError {
    /// The table is not the known one with more modes.
    #[error(
        "what is known has changed meanwhile, or more than new modes was given: {0} differs; read the \
         known description again and add to that"
    )]
    Differs(String),
    /// There is nothing to add.
    #[error("all of these modes are known already")]
    Nothing,
    /// A mode cannot be changed to.
    #[error("mode `{from}` cannot be changed to mode `{to}`: {source}")]
    Infeasible {
        /// From where.
        from: String,
        /// To where.
        to: String,
        /// Why not.
        source: TransitionError,
    },
}

impl<R: Reservations, A: Agents, C: Clock> HostModeManager<R, A, C> {
    /// Whether a table is the known one with more modes, all of which can be changed to and from.
    ///
    /// # Errors
    /// What stands against it.
    pub fn check_addition(&self, table: &ModeTable) -> Result<(), AdditionError> {
        let added = table
            .added_to(&self.table)
            .map_err(AdditionError::Differs)?;
        if added.is_empty() {
            return Err(AdditionError::Nothing);
        }
        for name in table.names() {
            for new in added.iter().filter(|new| **new != name) {
                self.check_change(table, name, new)?;
                self.check_change(table, new, name)?;
            }
        }
        Ok(())
    }

    fn check_change(&self, table: &ModeTable, from: &str, to: &str) -> Result<(), AdditionError> {
        let infeasible = |source| AdditionError::Infeasible {
            from: from.to_owned(),
            to: to.to_owned(),
            source,
        };
        let Some(target) = table.mode(to) else {
            return Ok(());
        };
        let changes = table.in_mode(from).changes_to(table, to, target);
        Transition::new(changes, self.limits.clone(), table.options()).map_err(infeasible)?;
        Ok(())
    }

    /// Knows more modes from now on; [`HostModeManager::check_addition`] has looked at them.
    pub fn add_modes(&mut self, table: ModeTable) {
        let mut names = self.table.names().into_iter();
        assert!(
            names.all(|name| table.mode(name).is_some()),
            "an addition takes no mode away"
        );
        self.table = table;
        self.note_what_holds();
    }
}
