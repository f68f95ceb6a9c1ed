//! A long build as an agent runs it: started without waiting, inspected from time to time, interrupted.

use haft::agent::{Agent, AgentSettings, End, History};
use haft::native::{Family, NATIVE, Settings};
use haft::provider::{self, ProviderSettings};
use haft::tool::{Session, Toolbox};

use super::host_context::{Bed, processes, unusual, wake, with_panes};
use crate::agent::fake::{Fake, calls, says};
use crate::common::wait::eventually;

/// RS05, TM07, TM08: an agent starts a command without waiting, inspects its pane, interrupts it, and runs another
/// one.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_a_build_looks_and_interrupts_it() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        let (slow, time) = (unusual(), unusual());
        let build =
            format!("for step in 1 2; do echo step $step; done; sleep {slow}; echo stuck; sleep {time}");
        let start = serde_json::json!({ "command": build, "wait": false }).to_string();
        let fake = Fake::start([
            calls(&[("1", "run_shell", &start)]),
            says("it is started"),
            calls(&[("2", "capture-pane", r#"{"delay": "100ms"}"#)]),
            calls(&[("3", "run_shell", r#"{"command": "echo in between"}"#)]),
            says("it is half done"),
            calls(&[("4", "capture-pane", "{}")]),
            calls(&[("5", "send-keys", r#"{"keys": ["C-c"]}"#)]),
            calls(&[("6", "run_shell", r#"{"command": "echo afterwards", "wait": "1h"}"#)]),
            says("it was stuck, and I stopped it"),
        ])
        .await;
        let settings = Settings { backend: Some(bed.backend.clone()), ..Settings::default() };
        let mut toolbox = Toolbox::default();
        for native in NATIVE.iter().filter(|native| native.family != Family::Workspace) {
            let tool = (native.build)(&settings).unwrap();
            toolbox.insert(tool, bed.grant.clone(), (native.limits)(&settings), "the test").unwrap();
        }
        let settings = ProviderSettings {
            base_url: Some(fake.base_url()),
            patience: crate::providers::quick(),
            ..ProviderSettings::new("openai", "m")
        };
        let agent = Agent::new(provider::build(settings).unwrap(), toolbox, AgentSettings::default());
        let (mut history, session) = (History::default(), Session::default());
        agent.run(&mut history, "build it", &session).await.unwrap();
        eventually("the build is slow", || !processes(&format!("sleep {slow}")).is_empty()).await;
        agent.run(&mut history, "how far is it?", &session).await.unwrap();
        wake(&slow).await;
        eventually("the build is stuck", || bed.screen().contains("\nstuck")).await;
        let outcome = agent.run(&mut history, "and now?", &session).await.unwrap();
        assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "it was stuck, and I stopped it"));
        let requests = fake.requests();
        let answer = |id: &str| {
            let messages = requests.last().unwrap()["messages"].as_array().unwrap();
            let found = messages.iter().find(|message| message["tool_call_id"] == id).unwrap();
            found["content"].as_str().unwrap().to_owned()
        };
        assert!(answer("1").contains("command dispatched to tmux pane %"), "{}", answer("1"));
        assert!(answer("2").contains("step 2") && !answer("2").contains("\nstuck"), "{}", answer("2"));
        assert!(answer("3").contains("runs in the pane of session"), "{}", answer("3"));
        assert!(answer("4").contains("\nstuck"), "{}", answer("4"));
        assert!(answer("5").contains("sent keys to tmux pane %"), "{}", answer("5"));
        assert!(answer("6").contains("stdout:\nafterwards"), "{}: {}", kind.name, answer("6"));
        let sleeping = format!("sleep {time}");
        eventually("the build was interrupted", || processes(&sleeping).is_empty()).await;
        fake.assert_done();
        bed.backend.close().await;
    }
}
