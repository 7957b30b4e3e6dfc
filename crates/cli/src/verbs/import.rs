//! `tailbound import`: another tool's file as a description.

use tailbound_model::{Problems, rt_app, to_toml};

use crate::arguments::{ImportArguments, ImportTool};
use crate::excerpt;
use crate::failure::Failure;
use crate::output::Output;

/// Prints the description; what could not be translated goes to standard error.
pub fn carry_out(arguments: &ImportArguments, output: &Output) -> Result<(), Failure> {
    let ImportTool::RtApp = arguments.tool;
    let file = arguments.file.display().to_string();
    let bytes = std::fs::read(&arguments.file).map_err(|error| {
        Failure::with_help(
            format!("cannot read {file}: {error}"),
            "name an rt-app JSON file",
        )
    })?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let imported = rt_app::import(&text, &file).map_err(|problems| Failure::Description {
        problems,
        text: text.clone(),
    })?;
    if output.speaks() {
        excerpt::render(&Problems::new(imported.notes.clone()), &text);
    }
    let toml = to_toml(&imported.description).map_err(Failure::from_error)?;
    output.print(&toml)
}
