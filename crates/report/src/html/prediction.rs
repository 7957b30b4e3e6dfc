//! The page of a prediction: promises, distributions and methods, and nothing that was measured.

use std::collections::BTreeMap;

use tailbound_distribution::Distribution;
use tailbound_model::BackendKind;

use super::{Page, PageScript, background, data, facts, sections};
use crate::html::escape::escaped;
use crate::{Labelled, RunReport, VariantResult, Verdict, plots, tables};

/// A page of predictions.
#[derive(Clone, Debug, Default)]
pub struct PredictionPage {
    /// What was predicted: the name of a description, or a queue in words.
    pub title: String,
    /// The version that predicted it.
    pub tailbound_version: String,
    /// One per service, variant and source of the execution times.
    pub services: Vec<PredictedService>,
}

/// The predicted response times of a service in a variant.
#[derive(Clone, Debug)]
pub struct PredictedService {
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// The source of the execution times.
    pub from: String,
    /// The response times, where there are any.
    pub responses: Option<Distribution>,
    /// The outlook of each promise.
    pub verdicts: Vec<Verdict>,
    /// Why there are no response times.
    pub refused: Option<String>,
}

/// The page. It holds its own scripts, styles and data, and loads nothing.
pub fn render_prediction_html(page: &PredictionPage) -> String {
    let report = RunReport {
        name: page.title.clone(),
        tailbound_version: page.tailbound_version.clone(),
        variants: results(&page.services),
        ..RunReport::default()
    };
    let plots = plots(&report);
    let tables = tables(&report, &[]);
    let rest = tables.iter().filter(|table| table.id != "verdicts");
    let content = [
        sections::promises(&report),
        refusals(&page.services),
        sections::latencies(&plots),
        rest.map(sections::table_section).collect(),
        background::methods(&report),
    ];
    let page = Page {
        title: &page.title,
        tailbound_version: &page.tailbound_version,
        skip_to: Some("promises"),
        facts: facts(&["predicted, not measured"]) + &sections::summary(&report),
        script: Some(PageScript {
            code: super::PAGE_SCRIPT,
            data_id: "report-data",
            data: data::page_data(&report, &plots, &tables),
        }),
        content: content.concat(),
    };
    page.render()
}

/// One result for each service in each variant, with all of its predictions.
fn results(services: &[PredictedService]) -> Vec<VariantResult> {
    let mut results: BTreeMap<(usize, &str), VariantResult> = BTreeMap::new();
    let mut variants: Vec<&str> = Vec::new();
    for one in services {
        if !variants.contains(&one.variant.as_str()) {
            variants.push(&one.variant);
        }
        let place = variants.iter().position(|name| *name == one.variant);
        let key = (place.unwrap_or_default(), one.service.as_str());
        let result = results.entry(key).or_insert_with(|| VariantResult {
            variant: one.variant.clone(),
            service: one.service.clone(),
            // The page of a prediction shows no enforcement.
            backend: BackendKind::UNRESERVED,
            interface: None,
            neighbours: false,
            predicted: Vec::new(),
            simulated: None,
            measured: Vec::new(),
            intervals: Vec::new(),
            verdicts: Vec::new(),
        });
        result.verdicts.extend(one.verdicts.iter().cloned());
        let label = one.from.clone();
        let predicted = one.responses.clone();
        result
            .predicted
            .extend(predicted.map(|distribution| Labelled {
                label,
                distribution,
            }));
    }
    results.into_values().collect()
}

/// Why some services have no response times.
fn refusals(services: &[PredictedService]) -> String {
    let items = services.iter().filter_map(|one| {
        let why = escaped(one.refused.as_ref()?);
        let place = escaped(&format!("{} in variant {}", one.service, one.variant));
        Some(format!("<li><b>{place}</b><span>{why}</span></li>"))
    });
    let items: String = items.collect();
    match items.as_str() {
        "" => String::new(),
        items => format!(
            "<section id=\"refusals\"><h2>What is not predicted</h2><ul class=\"warnings\">{items}</ul>\
             </section>\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_analysis::Outlook;
    use tailbound_distribution::{Evidence, Provenance, StepCdf};
    use tailbound_model::{Percentile, Slo};
    use tailbound_time::Duration;

    use super::*;

    fn page(name: &str) -> PredictionPage {
        let ms = Duration::from_millis;
        let curve = StepCdf::new(vec![(ms(4), 0.5), (ms(9), 1.0)]).unwrap();
        let slo = Slo {
            percentile: Percentile(99.0),
            latency: ms(5),
            task: None,
        };
        let service = |variant: &str, responses: Option<Distribution>| PredictedService {
            service: name.into(),
            variant: variant.into(),
            from: "execution times as known".into(),
            verdicts: vec![match &responses {
                Some(distribution) => {
                    Verdict::predicted(&slo, distribution.quantile(0.99), Outlook::Missed)
                }
                None => Verdict::predicted(&slo, None, Outlook::NotPredicted),
            }],
            refused: responses.is_none().then(|| "no time is guaranteed".into()),
            responses,
        };
        let provenance = Provenance::new(Evidence::Bound, "response time", "a method");
        PredictionPage {
            title: name.into(),
            tailbound_version: "0".into(),
            services: vec![
                service(
                    "reserved",
                    Some(Distribution::from_curve(provenance, curve)),
                ),
                service("unreserved", None),
            ],
        }
    }

    #[test]
    fn promises_curves_methods_and_refusals_are_there() {
        let html = render_prediction_html(&page("store"));
        for text in [
            "missed",
            "not predicted",
            "no time is guaranteed",
            "a method (bound)",
            "0<span> of 1</span>",
            "kept as predicted",
            "data-plot=\"0\"",
        ] {
            assert!(html.contains(text), "{text} is missing");
        }
        assert!(
            !html.contains("</span> not measured</span>"),
            "nothing was to be measured"
        );
    }

    #[test]
    fn names_never_become_markup() {
        let html = render_prediction_html(&page("</script><script>alert(1)</script>"));
        assert!(!html.contains("<script>alert"));
    }
}
