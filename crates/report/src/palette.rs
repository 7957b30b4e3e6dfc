//! Colours. Those of the variants are Okabe and Ito's, which people with any kind of colour
//! blindness tell apart; on a dark ground they are lightened.

/// On which ground a plot is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark on light, also for print.
    Light,
    /// Light on dark.
    Dark,
}

const LIGHT: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#b5578e", "#b98500", "#3f9bd1", "#5b6470",
];
const DARK: [&str; 7] = [
    "#5ab4f0", "#ff8b47", "#2fcb9c", "#e69ac6", "#f2bb3a", "#9bd3f7", "#aab3bf",
];

/// The colours of one ground.
pub(crate) struct Palette {
    pub ground: &'static str,
    pub ink: &'static str,
    pub faint_ink: &'static str,
    pub grid: &'static str,
    pub axis: &'static str,
    variants: &'static [&'static str],
}

impl Theme {
    pub(crate) fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                ground: "#ffffff",
                ink: "#1b1f24",
                faint_ink: "#5b6470",
                grid: "#e8ebef",
                axis: "#aab3bf",
                variants: &LIGHT,
            },
            Self::Dark => Palette {
                ground: "#15181c",
                ink: "#e8ebef",
                faint_ink: "#9aa4b1",
                grid: "#272c33",
                axis: "#4b5460",
                variants: &DARK,
            },
        }
    }
}

impl Palette {
    /// The colour of a variant by its place; after the last it begins again.
    pub(crate) fn variant(&self, place: usize) -> &'static str {
        self.variants[place % self.variants.len()]
    }

    /// All colours of variants, in order.
    pub(crate) fn variants(&self) -> &'static [&'static str] {
        self.variants
    }
}
