//! Managers in memory, for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailbound_model::ResourceInterface;
use tailbound_time::{Duration, Instant};

use tailbound_enforcement::managers::{ChangeRefused, LedgerSummary, Managers};
use tailbound_enforcement::{Plan, ReservationRequest};

/// Managers that only note which domains they serve. Clones share the note.
#[derive(Clone, Debug, Default)]
pub struct FakeManagers {
    serving: Arc<Mutex<BTreeMap<String, Plan>>>,
    refusing: Arc<Mutex<bool>>,
    next: Arc<Mutex<Instant>>,
    losing: Arc<Mutex<bool>>,
}

impl FakeManagers {
    /// The domains that are served.
    pub fn serving(&self) -> BTreeMap<String, Plan> {
        self.serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// From now on, their next replenishments lie at this instant.
    pub fn replenish_at(&self, next: Instant) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// From now on, no manager starts or changes.
    pub fn refuse(&self, refuse: bool) {
        *self.refusing.lock().unwrap_or_else(PoisonError::into_inner) = refuse;
    }

    /// From now on, changes are taken up, but nobody is told so.
    pub fn lose_answers(&self, lose: bool) {
        *self.losing.lock().unwrap_or_else(PoisonError::into_inner) = lose;
    }

    fn note(&self, plan: &Plan) -> Result<(), String> {
        if plan.managers.is_empty() {
            return Ok(());
        }
        if *self.refusing.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err("no manager today".into());
        }
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.insert(plan.request.domain.clone(), plan.clone());
        Ok(())
    }
}

impl Managers for FakeManagers {
    fn start(&mut self, plan: &Plan) -> Result<(), String> {
        self.note(plan)
    }

    fn change(
        &mut self,
        request: &ReservationRequest,
        _old: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Option<Instant>, ChangeRefused> {
        let Some(mut plan) = self.serving().remove(&request.domain) else {
            return Ok(None);
        };
        plan.request = request.clone();
        self.note(&plan).map_err(ChangeRefused::certainly)?;
        if *self.losing.lock().unwrap_or_else(PoisonError::into_inner) {
            let reason = "no answer".into();
            let may_hold = true;
            return Err(ChangeRefused { reason, may_hold });
        }
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(not_before.max(next)))
    }

    fn boost(
        &mut self,
        _domain: &str,
        _at_most: Duration,
        _if_exhausted: bool,
    ) -> Result<(), String> {
        Ok(())
    }

    fn unboost(&mut self, _domain: &str) -> Result<(), String> {
        Ok(())
    }

    fn stop(&mut self, domain: &str) -> Result<(), String> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.remove(domain);
        Ok(())
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        self.serving().get(domain).map(|_| LedgerSummary::default())
    }
}
