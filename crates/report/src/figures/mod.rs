//! Figures of measured responses: curves over a number, a surface over two, and groups of columns, on one page or each
//! as an SVG document.

mod columns;
mod curves;
mod frame;
mod page;
mod surface;

pub use columns::{ColumnGroup, ColumnGroupPicture};
pub use curves::{CurvePicture, CurvePoint, NumberCurve, NumberLevel};
pub use page::{FigurePage, FigureSection, PageFigure, render_figures_html};
pub use surface::{SurfaceCell, SurfaceMark, SurfacePicture};
