//! The model settings of a program: the route, the API format and the reasoning effort.

use crate::words;

words! {
    /// Which model works on a task.
    #[derive(Default)]
    pub enum Route {
        /// The model for the work itself.
        #[default]
        Complex = "complex",
        /// The model for small decisions.
        Fast = "fast",
        /// The fast model decides.
        Auto = "auto",
    }
}

words! {
    /// The OpenAI format, used by OpenAI and by compatible servers.
    pub enum ApiFormat {
        /// `POST /responses`, on which OpenAI's current models take tools.
        Responses = "responses",
        /// `POST /chat/completions`, the format of most other servers.
        Chat = "chat",
    }
}

words! {
    /// The reasoning effort before an answer, in words that fit every vendor. Each provider sends the nearest value
    /// that its model accepts.
    #[derive(PartialOrd, Ord)]
    pub enum Effort {
        /// No reasoning, if the model supports that.
        None = "none",
        /// The lowest effort of the model.
        Minimal = "minimal",
        /// A little.
        Low = "low",
        /// The effort that fits most tasks.
        Medium = "medium",
        /// Much.
        High = "high",
        /// More than that.
        XHigh = "xhigh",
        /// The highest effort of the model.
        Max = "max",
    }
}
