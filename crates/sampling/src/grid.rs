//! The points of a campaign: the product of its axes.

use tailbound_model::Axis;
use tailbound_time::{Duration, Rate};

use crate::table::{PERIOD, SHARE};

/// The most points of a campaign.
pub const MOST_POINTS: usize = 10_000;

/// `SampleGrid` is the product of axes. Points count from 0, the last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleGrid {
    axes: Vec<Axis>,
    /// For each axis the place of each value between 0 and 1.
    places: Vec<Vec<f64>>,
    /// For each axis whether places are those of logarithms, and the first and last of the values.
    scales: Vec<AxisScale>,
}

/// `AxisScale` turns a value of an axis into a place that is 0 at its least value and 1 at its greatest.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum AxisScale {
    /// Equal ratios are equally far apart: all values are above zero.
    Logarithmic {
        /// The least value.
        least: f64,
        /// The greatest.
        greatest: f64,
    },
    /// Equal differences are equally far apart.
    Linear {
        /// The least value.
        least: f64,
        /// The greatest.
        greatest: f64,
    },
    /// The values are words: each is one step from the next one.
    Steps {
        /// The number of values.
        count: usize,
    },
}

impl AxisScale {
    fn of(values: &[String]) -> Self {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let count = values.len();
        let Some(numbers) = numbers else {
            return Self::Steps { count };
        };
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match least > 0.0 {
            true => Self::Logarithmic { least, greatest },
            false => Self::Linear { least, greatest },
        }
    }

    /// The place of a number; outside of 0 to 1 where it is beyond the axis. `None` for words.
    pub fn place(&self, value: f64) -> Option<f64> {
        let (value, least, greatest) = match *self {
            Self::Logarithmic { least, greatest } => (value.ln(), least.ln(), greatest.ln()),
            Self::Linear { least, greatest } => (value, least, greatest),
            Self::Steps { .. } => return None,
        };
        match greatest > least {
            true => Some((value - least) / (greatest - least)),
            // One value has no distances; another value is simply elsewhere.
            false => Some(value - least),
        }
    }

    fn places(&self, values: &[String]) -> Vec<f64> {
        let step = |index: usize| index as f64 / (values.len().max(2) - 1) as f64;
        let place = |(index, value): (usize, &String)| {
            let number = number(value).and_then(|number| self.place(number));
            number.unwrap_or_else(|| step(index))
        };
        values.iter().enumerate().map(place).collect()
    }
}

/// A value as a number: a time in seconds, a rate per second, or a plain number.
pub fn number(text: &str) -> Option<f64> {
    let as_time = || text.parse::<Duration>().ok().map(Duration::as_secs_f64);
    let as_rate = || {
        let rate: Rate = text.parse().ok()?;
        Some(rate.expected_in(Duration::from_secs(1)))
    };
    let plain: Option<f64> = text.parse().ok();
    plain
        .or_else(as_time)
        .or_else(as_rate)
        .filter(|one| one.is_finite())
}

impl SampleGrid {
    /// The grid of these axes, each with at least one value.
    pub fn new(axes: Vec<Axis>) -> Self {
        let scales: Vec<AxisScale> = axes
            .iter()
            .map(|axis| AxisScale::of(&axis.values))
            .collect();
        let each = scales.iter().zip(&axes);
        let places = each
            .map(|(scale, axis)| scale.places(&axis.values))
            .collect();
        Self {
            axes,
            places,
            scales,
        }
    }

    /// The axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The scale of each axis.
    pub fn scales(&self) -> &[AxisScale] {
        &self.scales
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether there is no point at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of a point on each axis.
    pub fn positions(&self, point: usize) -> Vec<usize> {
        let mut left = point;
        let mut positions: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let position = left % axis.values.len();
                left /= axis.values.len();
                position
            })
            .collect();
        positions.reverse();
        positions
    }

    /// The point at these positions.
    pub fn point(&self, positions: &[usize]) -> usize {
        let each = self.axes.iter().zip(positions);
        each.fold(0, |sum, (axis, at)| sum * axis.values.len() + at)
    }

    /// The value of each axis at a point.
    pub fn values(&self, point: usize) -> Vec<&str> {
        let each = self.axes.iter().zip(self.positions(point));
        each.map(|(axis, at)| axis.values[at].as_str()).collect()
    }

    /// The place of a point on each axis, from 0 to 1.
    pub fn place(&self, point: usize) -> Vec<f64> {
        let each = self.places.iter().zip(self.positions(point));
        each.map(|(places, at)| places[at]).collect()
    }

    /// The point in the middle of all axes.
    pub fn middle(&self) -> usize {
        let middle: Vec<usize> = self.axes.iter().map(|axis| axis.values.len() / 2).collect();
        self.point(&middle)
    }

    /// The share of a CPU at a point, in percent, where shares are varied.
    pub fn share(&self, point: usize) -> Option<f64> {
        self.value_of(SHARE, point)?.parse().ok()
    }

    /// The period at a point, where periods are varied.
    pub fn period(&self, point: usize) -> Option<Duration> {
        self.value_of(PERIOD, point)?.parse().ok()
    }

    fn value_of(&self, key: &str, point: usize) -> Option<&str> {
        let axis = self.axes.iter().position(|axis| axis.key == key)?;
        self.values(point).get(axis).copied()
    }

    /// The index of the axis of shares.
    pub fn share_axis(&self) -> Option<usize> {
        self.axes.iter().position(|axis| axis.key == SHARE)
    }

    /// The places of all shares, ascending; none where shares are not varied.
    pub fn share_places(&self) -> Vec<f64> {
        let axis = self.share_axis();
        let mut places = axis.map_or_else(Vec::new, |axis| self.places[axis].clone());
        places.sort_by(f64::total_cmp);
        places
    }

    /// The axes that are the application's: neither `share` nor `period`.
    pub fn condition_axes(&self) -> Vec<usize> {
        let own = |axis: &Axis| axis.key != SHARE && axis.key != PERIOD;
        (0..self.axes.len())
            .filter(|index| own(&self.axes[*index]))
            .collect()
    }

    /// The points by condition: those of one entry differ in share and period alone.
    pub fn conditions(&self) -> Vec<Vec<usize>> {
        let axes = self.condition_axes();
        let mut conditions: std::collections::BTreeMap<Vec<usize>, Vec<usize>> =
            std::collections::BTreeMap::new();
        for point in 0..self.len() {
            let positions = self.positions(point);
            let condition = axes.iter().map(|axis| positions[*axis]).collect();
            conditions.entry(condition).or_default().push(point);
        }
        conditions.into_values().collect()
    }

    /// A point in words.
    pub fn in_words(&self, point: usize) -> String {
        let values = self.values(point);
        let each = self.axes.iter().zip(values);
        let each: Vec<String> = each
            .map(|(axis, value)| format!("{}={value}", axis.key))
            .collect();
        each.join(" ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn grid(axes: &[&str]) -> SampleGrid {
        SampleGrid::new(axes.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn points_and_positions_are_each_others_inverse() {
        let grid = grid(&["a.b=x,y", "share=20..100/20", "period=10ms,20ms,40ms"]);
        assert_eq!(grid.len(), 30);
        for point in 0..grid.len() {
            assert_eq!(grid.point(&grid.positions(point)), point);
        }
        assert_eq!(grid.values(1), ["x", "20", "20ms"]);
        assert_eq!(grid.share(29), Some(100.0));
        assert_eq!(grid.conditions().len(), 2);
        assert_eq!(grid.in_words(grid.middle()), "a.b=y share=60 period=20ms");
    }

    #[test]
    fn places_are_logarithmic_where_all_values_are_above_zero() {
        let grid = grid(&["period=10ms,20ms,40ms", "a.b=0,1,4", "c.d=x,y,z"]);
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        let place = grid.place(grid.middle());
        let expected = [0.5, 0.25, 0.5];
        assert!(
            place
                .iter()
                .zip(expected)
                .all(|(one, other)| near(*one, other))
        );
        assert!(near(grid.scales()[0].place(0.02).unwrap(), 0.5));
    }
}
