//! The model settings of a program: the route, the API format and the reasoning effort.

use crate::words;

words! {
    /// Which model works on a task.
    #[derive(Default)]
    pub enum Route {
        /// The one for the work itself.
        #[default]
        Complex = "complex",
        /// The one for small decisions.
        Fast = "fast",
        /// The fast one says which.
        Auto = "auto",
    }
}

words! {
    /// Which of OpenAI's two formats is spoken, by it and by servers that are compatible with it.
    pub enum ApiFormat {
        /// `POST /responses`, on which OpenAI's current models take tools.
        Responses = "responses",
        /// `POST /chat/completions`, which most other servers speak.
        Chat = "chat",
    }
}

words! {
    /// How much a model is to think before it answers, in words that fit every vendor. Each provider sends what comes
    /// closest to it among what its models take.
    #[derive(PartialOrd, Ord)]
    pub enum Effort {
        /// Not at all, where the model can be asked for that.
        None = "none",
        /// As little as it can.
        Minimal = "minimal",
        /// A little.
        Low = "low",
        /// What fits most tasks.
        Medium = "medium",
        /// Much.
        High = "high",
        /// More than that.
        XHigh = "xhigh",
        /// As much as it can.
        Max = "max",
    }
}
