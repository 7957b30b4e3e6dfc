//! The data ages and reaction times that analysis predicts for the chains of a description.

mod chain_model;
mod lasting_budget;

use serde::Serialize;
use tailbound_analysis::chains::estimate::{
    ASSUMPTIONS, ChainEstimate, DRAWN_CHAINS, DRAWN_ERROR, EstimateMethod, MergedEstimate,
    estimate, estimate_merged,
};
use tailbound_analysis::resolution::Deployment;
use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_model::{Description, InputFiles};
use tailbound_time::{Duration, nanoseconds};
use tailbound_topics::{Chain, Chains};

use crate::AssessmentError;
use crate::prediction::chosen_variants;
use chain_model::{ChainModel, ModeledChain};

/// The share of late outputs from which on a limit counts as missed; less is the rounding of the method.
const MISSED: f64 = 1e-6;

/// The name of the data age when the output appears.
const AT_OUTPUT: &str = "data age at the output";

/// The prediction for a chain in a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainPrediction {
    /// The chain.
    pub chain: String,
    /// The variant.
    pub variant: String,
    /// Why nothing is predicted.
    pub refused: Option<String>,
    /// The data age, the data age at the output, and the reaction time; none where nothing is predicted.
    pub times: Vec<PredictedChainTime>,
}

/// A predicted time of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedChainTime {
    /// Data age, data age at the output, or reaction time.
    pub name: &'static str,
    /// The longest time that is allowed.
    #[serde(rename = "limit_ns", with = "nanoseconds::optional")]
    pub limit: Option<Duration>,
    /// The share of all times within the limit.
    pub within_limit: Option<f64>,
    /// The time that half of all do not exceed.
    #[serde(rename = "p50_ns", with = "nanoseconds::optional")]
    pub median: Option<Duration>,
    /// The time that 99% do not exceed.
    #[serde(rename = "p99_ns", with = "nanoseconds::optional")]
    pub p99: Option<Duration>,
    /// The distribution, with its method and assumptions.
    pub distribution: Distribution,
}

impl PredictedChainTime {
    fn of(name: &'static str, limit: Option<Duration>, distribution: Distribution) -> Self {
        let quantile = |probability| Some(distribution.quantile(probability)?.low);
        Self {
            name,
            limit,
            within_limit: limit.map(|limit| distribution.cdf(limit).0),
            median: quantile(0.5),
            p99: quantile(0.99),
            distribution,
        }
    }
}

impl ChainPrediction {
    /// The limits that the chain is predicted to exceed, in words.
    pub fn objections(&self) -> Vec<String> {
        let late = self.times.iter().filter_map(|time| {
            let (limit, share) = (time.limit?, time.within_limit?);
            (share < 1.0 - MISSED).then(|| {
                format!(
                    "chain {} in variant {}: a {} within {limit} in {:.4}% of all cases",
                    self.chain,
                    self.variant,
                    time.name,
                    share * 100.0
                )
            })
        });
        late.collect()
    }
}

/// Predicts every chain of a description in every variant, or in the chosen one.
///
/// # Errors
/// The description has no such variant, or a reservation of it cannot be derived.
pub fn predict_chains(
    description: &Description,
    inputs: &InputFiles,
    variant: Option<&str>,
) -> Result<Vec<ChainPrediction>, AssessmentError> {
    let chains: Chains = description.section();
    if chains.0.is_empty() {
        return Ok(Vec::new());
    }
    let mut predictions = Vec::new();
    for variant in chosen_variants(description, variant)? {
        let deployment = Deployment::of_run(description, variant)?;
        let model = ChainModel::of(&deployment.description, inputs);
        for (name, chain) in &chains.0 {
            let outcome = predicted(&model, name, chain);
            let (times, refused) = match outcome {
                Ok(times) => (times, None),
                Err(why) => (Vec::new(), Some(why)),
            };
            predictions.push(ChainPrediction {
                chain: name.clone(),
                variant: variant.name.clone(),
                refused,
                times,
            });
        }
    }
    Ok(predictions)
}

fn predicted(
    model: &ChainModel<'_>,
    name: &str,
    chain: &Chain,
) -> Result<Vec<PredictedChainTime>, String> {
    let modeled = model.chain(name, chain)?;
    if !modeled.others.is_empty() {
        return predicted_beside_others(&modeled, name, chain);
    }
    let ModeledChain {
        stages,
        assumptions,
        ..
    } = modeled;
    let laws = estimate(&stages).map_err(|error| error.to_string())?;
    let ChainEstimate {
        data_age,
        data_age_at_output,
        reaction_time,
        method,
        is_sampled,
    } = laws;
    let distribution = |what: &str, law: StepCdf| {
        let subject = format!("{what} of {name}");
        let mut provenance = Provenance::new(Evidence::Estimate, subject, method.name());
        let general = ASSUMPTIONS.iter().map(|one| (*one).to_owned());
        provenance.assumptions = general.chain(assumptions.iter().cloned()).collect();
        if is_sampled {
            let some = "some jobs of the hyperperiod stand for all of them";
            provenance.assumptions.push(some.into());
        }
        if method == EstimateMethod::DrawnChains {
            provenance.assumptions.push(format!(
                "{DRAWN_CHAINS} drawn job chains stand for all of them: with a probability of 99.9%, no share is further off than \
                 {:.1}%",
                DRAWN_ERROR * 100.0
            ));
        }
        Distribution::from_curve(provenance, law)
    };
    Ok(vec![
        PredictedChainTime::of(
            "data age",
            chain.data_age,
            distribution("data age", data_age),
        ),
        PredictedChainTime::of(AT_OUTPUT, None, distribution(AT_OUTPUT, data_age_at_output)),
        PredictedChainTime::of(
            "reaction time",
            chain.reaction_time,
            distribution("reaction time", reaction_time),
        ),
    ])
}

/// The times of a chain whose readers find messages of other publishers, too.
fn predicted_beside_others(
    modeled: &ModeledChain,
    name: &str,
    chain: &Chain,
) -> Result<Vec<PredictedChainTime>, String> {
    let laws = estimate_merged(&modeled.stages, &modeled.others);
    let laws = laws.map_err(|error| error.to_string())?;
    let (share, age_error) = (laws.share, laws.age_error());
    let MergedEstimate {
        data_age,
        data_age_at_output,
        reaction_time,
        ..
    } = laws;
    if reaction_time.is_none() && chain.reaction_time.is_some() {
        return Err(format!(
            "`chains.{name}.reaction_time`: messages of other publishers displace the data of some causes in thousands of outputs; \
             give the chain a topic of its own, or limit its `data_age` alone"
        ));
    }
    let distribution = |what: &str, law: StepCdf, error: f64| {
        let subject = format!("{what} of {name}");
        let method = EstimateMethod::MergedChains.name();
        let mut provenance = Provenance::new(Evidence::Estimate, subject, method);
        let general = ASSUMPTIONS.iter().map(|one| (*one).to_owned());
        let said = [
            format!(
                "{:.1}% of all outputs have data of the chain, and the others data of other publishers",
                share * 100.0
            ),
            format!(
                "{DRAWN_CHAINS} drawn courses of the jobs stand for all of them: with a probability of 99.9%, no share is further \
                 off than {:.1}%",
                error * 100.0
            ),
        ];
        let assumptions = modeled.assumptions.iter().cloned();
        provenance.assumptions = general.chain(assumptions).chain(said).collect();
        Distribution::from_curve(provenance, law)
    };
    let mut times = vec![
        PredictedChainTime::of(
            "data age",
            chain.data_age,
            distribution("data age", data_age, age_error),
        ),
        PredictedChainTime::of(
            AT_OUTPUT,
            None,
            distribution(AT_OUTPUT, data_age_at_output, age_error),
        ),
    ];
    times.extend(reaction_time.map(|law| {
        let law = distribution("reaction time", law, DRAWN_ERROR);
        PredictedChainTime::of("reaction time", chain.reaction_time, law)
    }));
    Ok(times)
}
