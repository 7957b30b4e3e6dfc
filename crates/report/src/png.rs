//! A plot as PNG.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Families that a plot may be set in, the best first.
const FAMILIES: [&str; 6] = [
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Arial",
    "Helvetica",
    "FreeSans",
];

/// The widest and tallest picture.
const LARGEST: f32 = 16_384.0;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// No font is installed, and a plot without text is no plot.
    #[error(
        "no usable font is installed, so the plot would have no text; install one, such as the \
         package fonts-dejavu-core, or use the SVG"
    )]
    NoFont,
    /// The SVG is not what [`crate::render_svg`] makes.
    #[error("the SVG cannot be read: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// The picture would be too large, or have no size.
    #[error("a scale of {0} gives no picture; choose one above 0 and up to 8")]
    Scale(f32),
    /// The picture cannot be encoded.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(String),
}

/// Draws what [`crate::render_svg`] made, `scale` times as large (2 suits most screens).
///
/// # Errors
/// [`PngError::NoFont`] where the system has no font to write with.
pub fn render_png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    draw(svg, scale, fonts)
}

fn draw(svg: &str, scale: f32, fonts: fontdb::Database) -> Result<Vec<u8>, PngError> {
    let installed = |family: &str| {
        fonts
            .faces()
            .any(|face| face.families.iter().any(|(name, _)| name == family))
    };
    let family = FAMILIES
        .into_iter()
        .find(|family| installed(family))
        .map(str::to_owned)
        .or_else(|| {
            fonts
                .faces()
                .find_map(|face| Some(face.families.first()?.0.clone()))
        })
        .ok_or(PngError::NoFont)?;
    let mut fonts = fonts;
    fonts.set_sans_serif_family(family.clone());
    let options = Options {
        font_family: family,
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options)?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let fits = |length: f32| (1.0..=LARGEST).contains(&length);
    if !(fits(width) && fits(height)) {
        return Err(PngError::Scale(scale));
    }
    let mut picture =
        Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or(PngError::Scale(scale))?;
    let transform = Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut picture.as_mut());
    picture
        .encode_png()
        .map_err(|error| PngError::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_font_it_says_so() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>";
        let error = draw(svg, 1.0, fontdb::Database::new());
        assert!(matches!(error, Err(PngError::NoFont)));
    }
}
