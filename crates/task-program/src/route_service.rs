//! The routes of a description as a program of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::routes::{RouteStatus, Router};

use crate::{OwnTaskError, RoutePlan};

/// Routes in force, which pass messages on until this ends.
pub struct RouteService {
    router: Router,
    plan: RoutePlan,
}

impl RouteService {
    /// Opens and begins the routes of a plan.
    ///
    /// # Errors
    /// If a topic cannot be opened, or a thread does not get its priority. Then nothing is passed on.
    pub fn begin(plan: RoutePlan) -> Result<Self, OwnTaskError> {
        let mut router = Router::between(BTreeMap::new(), Arc::new(Monotonic));
        plan.put_into_force(&mut router, None)?;
        Ok(Self { router, plan })
    }

    /// Puts another plan into force, without losing a message of a route that is in both ([`Router::replace`]); the last numbers of
    /// the routes that end.
    ///
    /// # Errors
    /// If the plan cannot be put into force. Then the one of before is, with all its routes.
    pub fn replace(&mut self, plan: RoutePlan) -> Result<Vec<RouteStatus>, OwnTaskError> {
        let gone = plan.put_into_force(&mut self.router, None)?;
        self.plan = plan;
        Ok(gone)
    }

    /// Begins those routes anew that have failed.
    ///
    /// # Errors
    /// If a topic cannot be opened still.
    pub fn begin_failed_anew(&mut self) -> Result<(), OwnTaskError> {
        let gone = self.plan.put_into_force(&mut self.router, None)?;
        debug_assert!(gone.is_empty(), "the same routes are in force");
        Ok(())
    }

    /// The routes with their numbers.
    pub fn status(&self) -> Vec<RouteStatus> {
        self.router.status()
    }

    /// Ends the routes, which pass on what waits for them; their last numbers.
    pub fn end(self) -> Vec<RouteStatus> {
        self.router.end()
    }
}
