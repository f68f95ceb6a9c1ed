//! The tools that MCP's conformance suite requires, under the names that it requires. Each implements exactly the
//! suite's description.

use std::time::Duration;

use haft_plugin::{Context, Error, Level, Output};

/// One tool without arguments: its description, its type and name, and what it does.
macro_rules! fixture {
    ($(#[doc = $description:literal])+ $type:ident, $name:literal, |$context:ident| $body:expr) => {
        $(#[doc = $description])+
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        pub(crate) struct $type {}

        impl haft_plugin::Tool for $type {
            const NAME: &str = $name;

            fn call(self, $context: &Context) -> Result<Output, Error> {
                $body
            }
        }
    };
}

mod schema;
mod sound;

use self::schema::Dialect;
use self::sound::{PIXEL, silence};

/// Between two notifications, as the suite has it.
const PAUSE: Duration = Duration::from_millis(50);

fixture! {
    /// Answers with a text.
    SimpleText, "test_simple_text", |_context| Ok("This is a simple text response for testing.".into())
}

fixture! {
    /// Answers with an image.
    ImageContent, "test_image_content", |_context| Ok(Output::default().with_binary("image/png", PIXEL.to_vec()))
}

fixture! {
    /// Answers with a sound.
    AudioContent, "test_audio_content", |_context| Ok(Output::default().with_binary("audio/wav", silence()))
}

fixture! {
    /// Answers with a file.
    EmbeddedResource, "test_embedded_resource", |_context| {
        let text = b"This is an embedded resource content.";
        Ok(Output::default().with_binary("text/plain", text.to_vec()))
    }
}

fixture! {
    /// Answers with a text, an image and a file.
    MultipleContentTypes, "test_multiple_content_types", |_context| {
        let file = br#"{"test":"data","value":123}"#;
        let output = Output::from("Multiple content types test:").with_binary("image/png", PIXEL.to_vec());
        Ok(output.with_binary("application/json", file.to_vec()))
    }
}

fixture! {
    /// Tells three things while it works.
    ToolWithLogging, "test_tool_with_logging", |context| {
        context.log(Level::Info, "Tool execution started");
        std::thread::sleep(PAUSE);
        context.log(Level::Info, "Tool processing data");
        std::thread::sleep(PAUSE);
        context.log(Level::Info, "Tool execution completed");
        Ok("Three messages were logged.".into())
    }
}

fixture! {
    /// Tells something, to see whether it is heard by whoever did not ask.
    LoggingTool, "test_logging_tool", |context| {
        context.log(Level::Info, "A message");
        Ok("One message was logged.".into())
    }
}

fixture! {
    /// Fails.
    ErrorHandling, "test_error_handling",
    |_context| Err(Error::failed("This tool intentionally returns an error for testing"))
}

fixture! {
    /// Tells three times how far it is.
    ToolWithProgress, "test_tool_with_progress", |context| {
        for done in [0.0, 50.0, 100.0] {
            context.progress(done, 100.0, "");
            std::thread::sleep(PAUSE);
        }
        Ok("Progress was reported three times.".into())
    }
}

fixture! {
    /// Answers over a stream, without asking anybody.
    StreamingElicitation, "test_streaming_elicitation", |context| {
        context.progress(1.0, 1.0, "");
        Ok("Nobody was asked.".into())
    }
}

fixture! {
    /// Is asked about before it runs, as program.toml has it.
    RequestState, "test_input_required_result_request_state", |_context| Ok("A person said yes.".into())
}

fixture! {
    /// Is asked about before it runs, as program.toml has it.
    TamperedState, "test_input_required_result_tampered_state", |_context| Ok("A person said yes.".into())
}

haft_plugin::export!(
    SimpleText,
    ImageContent,
    AudioContent,
    EmbeddedResource,
    MultipleContentTypes,
    ToolWithLogging,
    LoggingTool,
    ErrorHandling,
    ToolWithProgress,
    StreamingElicitation,
    RequestState,
    TamperedState,
    Dialect,
);
