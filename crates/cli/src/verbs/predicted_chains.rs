//! Predicted chains as tables, CSV and distributions.

use tailbound_assessment::chain_prediction::{ChainPrediction, PredictedChainTime};
use tailbound_distribution::Distribution;
use tailbound_report::PredictedService;
use tailbound_time::Duration;

use super::predict_answer::millisecond_range;
use crate::arguments::{Format, PredictArguments};
use crate::output::{Output, table};

/// The source of the figures, where services have that of their execution times.
const SOURCE: &str = "chain";

/// The table of chains for people; nothing without chains.
pub fn table_of(chains: &[ChainPrediction], arguments: &PredictArguments) -> String {
    if chains.is_empty() {
        return String::new();
    }
    let percentiles = arguments.percentiles.iter().map(ToString::to_string);
    let shares = arguments.at.iter().map(|at| format!("within {at}"));
    let asked: Vec<String> = percentiles.chain(shares).collect();
    let mut header = vec!["chain", "variant", "time", "evidence"];
    header.extend(asked.iter().map(String::as_str));
    header.extend(["allowed", "in time"]);
    let rows = chains.iter().flat_map(|chain| {
        let rows = chain.times.iter().map(|time| {
            let mut row = vec![chain.chain.clone(), chain.variant.clone(), time.name.into()];
            row.push(time.distribution.provenance.evidence.to_string());
            row.extend(figures(&time.distribution, arguments));
            row.push(time.limit.map_or("-".into(), |limit| limit.to_string()));
            row.push(time.within_limit.map_or("-".into(), in_percent));
            row
        });
        let mut rows: Vec<Vec<String>> = rows.collect();
        if chain.refused.is_some() {
            let mut row = vec![chain.chain.clone(), chain.variant.clone()];
            row.resize(header.len(), "-".into());
            rows.push(row);
        }
        rows
    });
    let rows: Vec<Vec<String>> = rows.collect();
    format!("{}\n", table(&header, &rows))
}

/// The percentiles and shares that are asked for.
fn figures(times: &Distribution, arguments: &PredictArguments) -> Vec<String> {
    let percentiles = arguments.percentiles.iter().map(|percentile| {
        let between = times.quantile(percentile.probability());
        let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
        let high = between.and_then(|between| between.high);
        millisecond_range(ns(between.map(|between| between.low)), ns(high))
    });
    let shares = arguments.at.iter();
    let shares = shares.map(|at| format!("{:.4}", times.cdf(*at).0));
    percentiles.chain(shares).collect()
}

/// A share in percent, and 100% only for all.
fn in_percent(share: f64) -> String {
    let percent = (share * 1e6).floor() / 1e4;
    format!("{percent:.4}%")
}

/// The rows of the CSV that services are in, too: the mean is left out.
pub fn csv_rows(chains: &[ChainPrediction], arguments: &PredictArguments) -> Vec<Vec<String>> {
    let asked = 1 + arguments.percentiles.len() + arguments.at.len();
    let rows = chains.iter().flat_map(|chain| {
        let first = |name: &str| vec![name.to_owned(), chain.variant.clone(), SOURCE.into()];
        let rows = chain.times.iter().map(move |time| {
            let mut row = first(&subject(chain, time));
            row.push(time.distribution.provenance.evidence.to_string());
            row.push("-".into());
            row.extend(figures(&time.distribution, arguments));
            let promise = time.limit.zip(time.within_limit);
            let promise = promise.map(|(limit, share)| format!("{limit}: {}", in_percent(share)));
            row.extend([promise.unwrap_or_default(), String::new()]);
            row
        });
        let refused = chain.refused.iter().map(move |why| {
            let mut row = first(&chain.chain);
            row.resize(4 + asked, "-".into());
            row.extend([String::new(), why.clone()]);
            row
        });
        rows.chain(refused)
    });
    rows.collect()
}

fn subject(chain: &ChainPrediction, time: &PredictedChainTime) -> String {
    format!("{}: {}", chain.chain, time.name)
}

/// The distributions with the names of their chains and variants.
pub fn distributions(
    chains: &[ChainPrediction],
) -> impl Iterator<Item = (String, &str, &Distribution)> {
    chains.iter().flat_map(|chain| {
        let times = chain.times.iter();
        times.map(|time| {
            let name = format!("{} {}", chain.chain, time.name);
            (name, chain.variant.as_str(), &time.distribution)
        })
    })
}

/// The chains on the page of predictions.
pub fn on_page(chains: &[ChainPrediction]) -> impl Iterator<Item = PredictedService> {
    chains.iter().flat_map(|chain| {
        let entry = |service: String, responses, refused| PredictedService {
            service,
            variant: chain.variant.clone(),
            from: SOURCE.into(),
            responses,
            verdicts: Vec::new(),
            refused,
        };
        let times = chain.times.iter().map(move |time| {
            let law = Some(time.distribution.clone());
            entry(subject(chain, time), law, None)
        });
        let refused = chain
            .refused
            .iter()
            .map(move |why| entry(chain.chain.clone(), None, Some(why.clone())));
        times.chain(refused)
    })
}

/// Tells the reasons of refusals in the first variant, and for the curious those in the others, the methods and the assumptions.
pub fn tell(chains: &[ChainPrediction], output: &Output) {
    if output.format() == Format::Csv {
        return;
    }
    let first = chains.first().map(|chain| &chain.variant);
    for chain in chains {
        let place = format!("chain {} in variant {}", chain.chain, chain.variant);
        match &chain.refused {
            Some(why) if Some(&chain.variant) == first => output.note(format!("{place}: {why}")),
            Some(why) => output.detail(format!("{place}: {why}")),
            None => {}
        }
        if let Some(time) = chain.times.first() {
            let provenance = &time.distribution.provenance;
            let assumptions = provenance.assumptions.join("; ");
            output.detail(format!(
                "{place}: {}; assumed: {assumptions}",
                provenance.method
            ));
        }
    }
}
