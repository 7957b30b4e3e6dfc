//! The response surface of a condition: the promised quantile over its limit, measured or predicted, over share and period.

use tailbound_report::{SurfaceCell, SurfaceMark, SurfacePicture};
use tailbound_sampling::FittedModel;

use super::campaign_table::CampaignTable;

/// The most cells of a surface.
const MOST_CELLS: usize = 600;

/// The surface of a condition; `None` without a promise, or for too many cells.
pub(super) fn response_surface(
    table: &CampaignTable<'_>,
    condition: usize,
    fitted: &FittedModel<'_>,
) -> Option<SurfacePicture> {
    let promise = table.promise()?;
    let (shares, periods) = (table.shares(), table.periods());
    if shares.len() * periods.len() > MOST_CELLS || shares.len() * periods.len() < 2 {
        return None;
    }
    let chosen = table.chosen(condition);
    let cell = |share: Option<&str>, period: Option<&str>| {
        let Some(point) = table.point(condition, share, period) else {
            return SurfaceCell::default();
        };
        match table.measured(point) {
            Some(measured) => SurfaceCell {
                ratio: Some(measured.exp()),
                mark: match chosen == Some(point) {
                    true => SurfaceMark::Chosen,
                    false => SurfaceMark::Measured,
                },
            },
            None => SurfaceCell {
                ratio: table.predicted(point, fitted).map(|one| one.middle.exp()),
                mark: SurfaceMark::Predicted,
            },
        }
    };
    let cells = shares.iter().map(|share| {
        let row = periods.iter();
        row.map(|period| cell(share.as_deref(), period.as_deref()))
            .collect()
    });
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "described".to_owned());
    Some(SurfacePicture {
        id: String::new(),
        title: format!(
            "p{} over its limit, {}",
            promise.percentile,
            table.condition_in_words(condition)
        ),
        about: "Bold: measured. Italic: predicted by the model. At most 1 where the promise is kept; the frame marks the answer."
            .into(),
        x_title: "period".into(),
        y_title: "share of a CPU (%)".into(),
        columns: periods.iter().map(word).collect(),
        rows: shares.iter().map(word).collect(),
        cells: cells.collect(),
    })
}
