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

/// The colours of a page, which knows its ground only when it is shown: those of its style sheet.
const PAGE: [&str; 7] = [
    "var(--v0)",
    "var(--v1)",
    "var(--v2)",
    "var(--v3)",
    "var(--v4)",
    "var(--v5)",
    "var(--v6)",
];

/// The colours of one ground.
pub(crate) struct Palette {
    pub ground: &'static str,
    pub ink: &'static str,
    pub faint_ink: &'static str,
    pub grid: &'static str,
    pub axis: &'static str,
    /// What went wrong.
    pub alarm: &'static str,
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
                alarm: "#c1121f",
                variants: &LIGHT,
            },
            Self::Dark => Palette {
                ground: "#15181c",
                ink: "#e8ebef",
                faint_ink: "#9aa4b1",
                grid: "#272c33",
                axis: "#4b5460",
                alarm: "#ff6b6b",
                variants: &DARK,
            },
        }
    }
}

impl Palette {
    /// The colours of a picture that is part of a page.
    pub(crate) fn of_page() -> Self {
        Self {
            ground: "var(--ground)",
            ink: "var(--ink)",
            faint_ink: "var(--faint)",
            grid: "var(--line)",
            axis: "var(--axis)",
            alarm: "var(--alarm)",
            variants: &PAGE,
        }
    }

    /// The colour of a variant by its place; after the last it begins again.
    pub(crate) fn variant(&self, place: usize) -> &'static str {
        self.variants[place % self.variants.len()]
    }

    /// All colours of variants, in order.
    pub(crate) fn variants(&self) -> &'static [&'static str] {
        self.variants
    }
}
