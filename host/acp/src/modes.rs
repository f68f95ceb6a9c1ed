//! The modes of a session: as the protocol's session modes, and as the option that replaces them in newer editors.
//! Only the user chooses a mode.

use agent_client_protocol_schema::v1::{
    Error, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};

use crate::message::told;

/// The option for the mode.
pub(crate) const MODE: &str = "mode";

/// The id, name and description of each mode: with the rights of the program, and read only.
const MODES: [(&str, &str, &str); 2] = [
    ("default", "Default", "Tools act with the rights of the program"),
    ("plan", "Plan", "Tools read, and neither write nor send anything"),
];

/// Returns all modes and the current one.
pub(crate) fn state(is_planning: bool) -> SessionModeState {
    let modes =
        MODES.map(|(id, name, description)| SessionMode::new(id, name).description(description.to_owned()));
    SessionModeState::new(id(is_planning), modes.to_vec())
}

/// Returns the modes as an option.
pub(crate) fn option(is_planning: bool) -> SessionConfigOption {
    let modes: Vec<_> = MODES
        .iter()
        .map(|(id, name, description)| {
            SessionConfigSelectOption::new(*id, *name).description((*description).to_owned())
        })
        .collect();
    let option = SessionConfigOption::select(MODE, "Mode", id(is_planning), modes);
    option.category(SessionConfigOptionCategory::Mode)
}

/// Whether the mode `id` is plan mode.
pub(crate) fn is_plan(id: &str) -> Result<bool, Error> {
    let [default, plan] = MODES.map(|(id, ..)| id);
    match id {
        id if id == default => Ok(false),
        id if id == plan => Ok(true),
        _ => Err(told(Error::invalid_params(), "there is no such mode")),
    }
}

fn id(is_planning: bool) -> &'static str {
    let [default, plan] = MODES.map(|(id, ..)| id);
    if is_planning { plan } else { default }
}
