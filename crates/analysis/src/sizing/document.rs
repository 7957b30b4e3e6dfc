//! Sizings in machine output and in words.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};
use tailbound_model::Percentile;
use tailbound_time::Duration;

use super::{Choice, Infeasible, Sizing};

impl Serialize for Sizing {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let limits = self.choice().and_then(|choice| self.limits(choice));
        let of_cap = usize::from(!self.cap_assumptions.is_empty());
        let of_limit = 2 * usize::from(limits.is_some());
        let of_stop = usize::from(!self.open.is_empty());
        let mut fields = out.serialize_struct("Sizing", 7 + of_cap + of_limit + of_stop)?;
        fields.serialize_field("feasible", &self.best.is_some())?;
        fields.serialize_field("margin_points", &self.margin.0)?;
        fields.serialize_field("best", &self.choice())?;
        fields.serialize_field("rows", &self.choices)?;
        if of_stop > 0 {
            let open_ns: Vec<u64> = self.open.iter().map(|period| period.as_nanos()).collect();
            fields.serialize_field("open_periods_ns", &open_ns)?;
        }
        fields.serialize_field("infeasible", &self.infeasible)?;
        fields.serialize_field("evidence", &self.evidence)?;
        fields.serialize_field("assumptions", &self.assumptions)?;
        if of_cap > 0 {
            fields.serialize_field("cap_assumptions", &self.cap_assumptions)?;
        }
        if let Some((limit, with_margin)) = limits {
            fields.serialize_field("limit", &limit.to_string())?;
            fields.serialize_field("limit_with_margin", &with_margin.to_string())?;
        }
        fields.end()
    }
}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
        let mut fields = out.serialize_struct("Choice", 6 + usize::from(self.kept.is_some()))?;
        fields.serialize_field("period_ns", &self.period.as_nanos())?;
        fields.serialize_field("budget_ns", &ns(self.budget))?;
        fields.serialize_field("bandwidth", &self.bandwidth())?;
        fields.serialize_field("budget_with_margin_ns", &ns(self.with_margin))?;
        fields.serialize_field("resolution_ns", &self.resolution.as_nanos())?;
        fields.serialize_field("on_front", &self.on_front)?;
        if let Some(kept) = self.kept {
            fields.serialize_field("kept", &kept)?;
        }
        fields.end()
    }
}

impl Serialize for Infeasible {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let at_least_ns = self.latency.low.as_nanos();
        let mut fields = out.serialize_struct("Infeasible", 4)?;
        fields.serialize_field("p", &self.promise.probability)?;
        fields.serialize_field("latency_ns", &self.promise.latency.as_nanos())?;
        fields.serialize_field("dedicated_share_at_most", &self.share_at_most)?;
        fields.serialize_field("dedicated_latency_at_least_ns", &at_least_ns)?;
        fields.end()
    }
}

impl fmt::Display for Infeasible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shares come from percentiles; a billionth of a point is beyond what anybody promises.
        let percentile = Percentile((self.promise.probability * 1e11).round() / 1e9);
        write!(
            out,
            "not even a CPU of its own keeps {percentile} within {}: it reaches {:.4} at most, and \
             {} for {percentile}",
            self.promise.latency, self.share_at_most, self.latency.low,
        )
    }
}
