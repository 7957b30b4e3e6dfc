//! How the utilisation of a set is divided among its tasks.

use super::MOST_TASKS;
use super::error::GenerateError;
use super::fixed_sum::FixedSum;
use super::tilted_sum::TiltedSum;
use crate::workload::streams::RandomStream;

/// Draws that UUniFast-discard throws away in a row before it gives up.
const MOST_ATTEMPTS: u32 = 100_000;

/// How the utilisation of a set is divided among its tasks.
#[derive(Clone, Debug, PartialEq)]
pub enum Utilisations {
    /// UUniFast (Bini and Buttazzo 2005, section 3): uniform over all divisions of the sum. A set
    /// with a task above `most` is discarded whole and drawn again (Davis and Burns 2009), which
    /// leaves the divisions within the bound uniform.
    UUniFastDiscard {
        /// How many tasks.
        tasks: u32,
        /// The greatest utilisation of one task, 1 in the paper.
        most: f64,
    },
    /// RandFixedSum (Stafford 2006; Emberson, Stafford and Davis 2010): uniform over all divisions
    /// of the sum in which every task lies from `least` to `most`, without discarding anything.
    ///
    RandFixedSum {
        /// How many tasks.
        tasks: u32,
        /// The least utilisation of one task.
        least: f64,
        /// The greatest utilisation of one task.
        most: f64,
    },
    /// Uniform over all divisions of the sum in which each task lies within a range of its own, by
    /// tilted draws of which some are discarded (see `tilted_sum`).
    ///
    /// Dirichlet-Rescale (Griffin, Bate and Davis 2020), which is for the same purpose, was found
    /// not to be uniform (Willemsen et al. 2025, arXiv 2501.16936), and its authors' package
    /// advises against it.
    WithinEach {
        /// The least and the greatest utilisation of each task.
        ranges: Vec<(f64, f64)>,
    },
    /// Tasks are added until the sum is reached, and the last is trimmed to it (thesis, section
    /// 3.4.1): how many tasks there are is an outcome.
    Bimodal(Bimodal),
}

/// A law of utilisations with two humps: uniform over the light range with probability
/// `light_share`, over the heavy range otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bimodal {
    /// The range of light tasks.
    pub light: (f64, f64),
    /// The range of heavy tasks.
    pub heavy: (f64, f64),
    /// The probability of a light task.
    pub light_share: f64,
}

impl Bimodal {
    /// The medium law of the thesis (section 3.4.1): light 0.0001 to 0.5 with probability 2/3, heavy
    /// 0.5 to 0.9 with 1/3.
    pub const MEDIUM: Self = Self::with_share(6.0 / 9.0);
    /// The same ranges with probabilities 8/9 and 1/9.
    pub const LIGHT: Self = Self::with_share(8.0 / 9.0);
    /// The same ranges with probabilities 4/9 and 5/9.
    pub const HEAVY: Self = Self::with_share(4.0 / 9.0);

    const fn with_share(light_share: f64) -> Self {
        Self {
            light: (0.0001, 0.5),
            heavy: (0.5, 0.9),
            light_share,
        }
    }

    fn draw(&self, stream: &mut RandomStream) -> f64 {
        let (low, high) = match stream.unit() < self.light_share {
            true => self.light,
            false => self.heavy,
        };
        low + (high - low) * stream.unit()
    }
}

impl Utilisations {
    /// The utilisations of one set, with the sum `total`.
    pub(super) fn draw(
        &self,
        total: f64,
        stream: &mut RandomStream,
    ) -> Result<Vec<f64>, GenerateError> {
        if !(total.is_finite() && total > 0.0) {
            return Err(GenerateError::Utilisation { utilisation: total });
        }
        match self {
            Self::UUniFastDiscard { tasks, most } => {
                check_sum(*tasks, 0.0, *most, total)?;
                uunifast_discard(*tasks, *most, total, stream)
            }
            Self::RandFixedSum { tasks, least, most } => {
                check_sum(*tasks, *least, *most, total)?;
                Ok(rand_fixed_sum(*tasks, *least, *most, total, stream))
            }
            Self::WithinEach { ranges } => within_each(ranges, total, stream),
            Self::Bimodal(law) => bimodal(law, total, stream),
        }
    }
}

/// An error unless so many tasks within those bounds can have the sum `total`.
fn check_sum(tasks: u32, least: f64, most: f64, total: f64) -> Result<(), GenerateError> {
    check_tasks(tasks)?;
    check_range(least, most)?;
    let (lowest, highest) = (least * f64::from(tasks), most * f64::from(tasks));
    // Three times 0.1 is a little more than 0.3 in floats, and means the same.
    let rounding = 1e-12 * highest;
    if total < lowest - rounding || total > highest + rounding {
        return Err(GenerateError::ImpossibleSum {
            tasks,
            least,
            most,
            lowest,
            highest,
            utilisation: total,
        });
    }
    Ok(())
}

fn check_tasks(tasks: u32) -> Result<(), GenerateError> {
    let most = MOST_TASKS;
    match tasks {
        0 => Err(GenerateError::Tasks { tasks, most }),
        _ if tasks > most => Err(GenerateError::Tasks { tasks, most }),
        _ => Ok(()),
    }
}

fn check_range(least: f64, most: f64) -> Result<(), GenerateError> {
    if least >= 0.0 && least <= most && most > 0.0 && most <= 1.0 {
        return Ok(());
    }
    Err(GenerateError::UtilisationRange { least, most })
}

fn uunifast_discard(
    tasks: u32,
    most: f64,
    total: f64,
    stream: &mut RandomStream,
) -> Result<Vec<f64>, GenerateError> {
    for _ in 0..MOST_ATTEMPTS {
        let mut shares = UniformShares::new(tasks, total);
        let utilisations: Vec<f64> = (0..tasks)
            .map(|_| shares.next_share(|| stream.unit()))
            .collect();
        if utilisations.iter().all(|utilisation| *utilisation <= most) {
            return Ok(utilisations);
        }
    }
    Err(GenerateError::DiscardedTooOften {
        attempts: MOST_ATTEMPTS,
        most,
    })
}

/// The division of a sum among tasks, one share after the other, uniform over all divisions
/// (UUniFast; Bini and Buttazzo 2005, section 3), on draws that come from the caller.
#[derive(Clone, Debug)]
pub struct UniformShares {
    left: f64,
    tasks: u32,
}

impl UniformShares {
    /// Divides `total` among `tasks`.
    pub fn new(tasks: u32, total: f64) -> Self {
        Self { left: total, tasks }
    }

    /// The share of the next task, for which one number is drawn, uniform in (0, 1); the last one
    /// takes what is left, without a draw. Zero when all tasks have theirs.
    pub fn next_share(&mut self, unit: impl FnOnce() -> f64) -> f64 {
        // Of what is left for k tasks, all but the first take a share that is distributed as the
        // greatest of k - 1 uniform numbers: its (k - 1)-th root is uniform.
        self.tasks = self.tasks.saturating_sub(1);
        let next = match self.tasks {
            0 => 0.0,
            others => self.left * unit().powf(1.0 / f64::from(others)),
        };
        let share = self.left - next;
        self.left = next;
        share
    }
}

fn rand_fixed_sum(
    tasks: u32,
    least: f64,
    most: f64,
    total: f64,
    stream: &mut RandomStream,
) -> Vec<f64> {
    let width = most - least;
    if width == 0.0 {
        return vec![least; tasks as usize];
    }
    let sum = (total - f64::from(tasks) * least) / width;
    let unit = FixedSum::new(tasks as usize, sum).draw(stream);
    unit.into_iter()
        .map(|share| (least + width * share).clamp(least, most))
        .collect()
}

fn within_each(
    ranges: &[(f64, f64)],
    total: f64,
    stream: &mut RandomStream,
) -> Result<Vec<f64>, GenerateError> {
    check_tasks(u32::try_from(ranges.len()).unwrap_or(u32::MAX))?;
    for (least, most) in ranges {
        check_range(*least, *most)?;
    }
    let lowest: f64 = ranges.iter().map(|(least, _)| least).sum();
    let highest: f64 = ranges.iter().map(|(_, most)| most).sum();
    // As for one range: what rounding makes of the ends of the sum means the ends.
    let rounding = 1e-12 * highest;
    if total < lowest - rounding || total > highest + rounding {
        return Err(GenerateError::ImpossibleSumOfRanges {
            lowest,
            highest,
            utilisation: total,
        });
    }
    let widths = ranges.iter().map(|(least, most)| most - least).collect();
    let point = TiltedSum::new(widths, total - lowest).draw(stream);
    let point = point.ok_or(GenerateError::NoDrawFits)?;
    let each = ranges.iter().zip(point);
    Ok(each
        .map(|((least, most), share)| (least + share).clamp(*least, *most))
        .collect())
}

fn bimodal(
    law: &Bimodal,
    total: f64,
    stream: &mut RandomStream,
) -> Result<Vec<f64>, GenerateError> {
    check_range(law.light.0, law.light.1)?;
    check_range(law.heavy.0, law.heavy.1)?;
    if !(0.0..=1.0).contains(&law.light_share) {
        return Err(GenerateError::Share {
            share: law.light_share,
        });
    }
    let mut utilisations = Vec::new();
    let mut left = total;
    while left > 0.0 {
        if utilisations.len() >= MOST_TASKS as usize {
            return Err(GenerateError::Tasks {
                tasks: MOST_TASKS + 1,
                most: MOST_TASKS,
            });
        }
        let drawn = law.draw(stream).min(left);
        utilisations.push(drawn);
        left -= drawn;
    }
    Ok(utilisations)
}
