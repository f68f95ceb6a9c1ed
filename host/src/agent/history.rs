//! A conversation that every vendor accepts as it stands, at every moment: calls come with
//! their answers, nothing empty is kept, and nobody speaks twice in a row.

use crate::provider::{Exchange, Message};

/// A conversation so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(Vec<Message>);

impl History {
    /// What was said, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    /// Adds what a person said. Said again before the model came to answer, it joins what was
    /// said before: the prompt templates of many models insist on taking turns.
    pub fn say(&mut self, text: &str) {
        if let Some(Message::User(last)) = self.0.last_mut() {
            last.push_str("\n\n");
            last.push_str(text);
        } else {
            self.0.push(Message::User(text.to_owned()));
        }
    }

    /// Adds a turn of the model, unless there was nothing in it.
    pub fn record(&mut self, exchange: Exchange) {
        if !exchange.reply().is_empty() {
            self.0.push(Message::Turn(exchange));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Reply;

    /// PL20.
    #[test]
    fn pl20_what_is_said_again_joins_what_was_said_before() {
        let mut history = History::default();
        history.say("one");
        history.say("two");
        assert_eq!(history.messages(), [Message::User("one\n\ntwo".into())]);
        history.record(Exchange::new(Reply { text: "yes".into(), ..Reply::default() }, []));
        history.say("three");
        assert_eq!(history.messages().len(), 3);
    }

    /// PL20.
    #[test]
    fn pl20_an_empty_turn_is_not_kept() {
        let mut history = History::default();
        history.record(Exchange::new(Reply::default(), []));
        assert_eq!(history.messages(), []);
    }
}
