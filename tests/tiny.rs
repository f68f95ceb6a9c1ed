//! A plugin assembled by hand: compiled at once, and as invalid as a test needs it.

use haft::plugin::Source;

/// The properties of a tiny plugin.
#[derive(Clone)]
pub(crate) struct Tiny {
    /// The export; the world's own export unless a test needs another.
    pub(crate) export: String,
    /// The import: one function of one interface.
    pub(crate) import: Option<String>,
    /// Name, description, parameters and output schema of each tool.
    pub(crate) tools: Vec<(String, String, String, Option<String>)>,
    /// Instructions before the list of tools is returned.
    pub(crate) before_listing: &'static str,
    /// Instructions before the answer is returned.
    pub(crate) before_answering: &'static str,
    /// The text of every answer.
    pub(crate) answer: String,
    /// The number of the world's error for every answer; `None` for success.
    pub(crate) error: Option<u32>,
}

/// A schema that accepts all parameters.
pub(crate) const ANYTHING: &str = r#"{"type":"object"}"#;

impl Default for Tiny {
    fn default() -> Self {
        let tool = ("tiny".into(), "Does little.".into(), ANYTHING.into(), None);
        Self {
            export: "haft:plugin/tools@0.1.0".into(),
            import: None,
            tools: vec![tool],
            before_listing: "",
            before_answering: "",
            answer: "a tiny answer".into(),
            error: None,
        }
    }
}

/// The offset of the guest's data in its only page.
const DATA: usize = 4096;

/// The guest's results in the layout of the canonical ABI.
#[derive(Default)]
struct Data(Vec<u8>);

impl Data {
    fn add(&mut self, bytes: &[u8]) -> u32 {
        while !self.0.len().is_multiple_of(4) {
            self.0.push(0);
        }
        let place = DATA + self.0.len();
        self.0.extend(bytes);
        place.try_into().unwrap()
    }

    fn text(&mut self, text: &str) -> [u32; 2] {
        [self.add(text.as_bytes()), text.len().try_into().unwrap()]
    }

    fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.add(&bytes)
    }

    fn escaped(&self) -> String {
        self.0.iter().flat_map(|byte| ["\\".to_owned(), format!("{byte:02x}")]).collect()
    }
}

impl Tiny {
    /// The component.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap()
    }

    /// The component as a plugin's source; stays in memory for the rest of the test.
    pub(crate) fn source(&self) -> Source {
        Source::Embedded(self.bytes().leak())
    }

    fn wat(&self) -> String {
        let mut data = Data::default();
        let tools: Vec<u32> = self.tools.iter().flat_map(|tool| definition(&mut data, tool)).collect();
        let tools = data.words(&tools);
        let list = data.words(&[tools, self.tools.len().try_into().unwrap()]);
        let [text, length] = data.text(&self.answer);
        let content = data.words(&[0, text, length, 0, 0]);
        let answer = data.words(&match self.error {
            Some(number) => [1, number, text, length, 0, 0],
            None => [0, content, 1, 0, 0, 0],
        });
        let import = self
            .import
            .as_ref()
            .map(|import| format!("(import {import:?} (instance (export \"f\" (func))))"));
        TEMPLATE
            .replace("EXPORT", &self.export)
            .replace("IMPORT", &import.unwrap_or_default())
            .replace("BEFORE_LIST", self.before_listing)
            .replace("BEFORE_CALL", self.before_answering)
            .replace("LIST", &list.to_string())
            .replace("ANSWER", &answer.to_string())
            .replace("OFFSET", &DATA.to_string())
            .replace("DATA", &data.escaped())
    }
}

fn definition(
    data: &mut Data,
    (name, description, parameters, output): &(String, String, String, Option<String>),
) -> Vec<u32> {
    let texts = [name, description, parameters].map(|text| data.text(text));
    let output_text = data.text(output.as_deref().unwrap_or_default());
    let mut words = texts.concat();
    words.push(output.is_some().into());
    words.extend(output_text);
    // No hint, no annotation.
    words.extend([0, 0, 0]);
    words
}

/// The types of the world, declared twice: an exported type must have a name in the exporting component.
const TEMPLATE: &str = r#"(component
  IMPORT
  (core module $code
    (memory (export "memory") 1)
    (data (i32.const OFFSET) "DATA")
    (global $free (mut i32) (i32.const 32768))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      global.get $free
      (global.set $free (i32.and (i32.const -8) (i32.add (i32.const 7) (i32.add (global.get $free) (local.get 3))))))
    (func (export "list") (result i32) BEFORE_LIST i32.const LIST)
    (func (export "call") (param i32 i32 i32 i32 i32 i32) (result i32) BEFORE_CALL i32.const ANSWER))
  (core instance $guest (instantiate $code))
  (type $hints (record (field "read-only" bool) (field "destructive" bool) (field "idempotent" bool) (field "open-world" bool)))
  (type $def (record (field "name" string) (field "description" string) (field "parameters" string)
    (field "output-schema" (option string)) (field "hints" $hints) (field "annotations" (list (tuple string string)))))
  (type $call (record (field "id" string) (field "tool" string) (field "arguments" string)))
  (type $blob (record (field "media-type" string) (field "data" (list u8))))
  (type $content (variant (case "text" string) (case "binary" $blob)))
  (type $output (record (field "content" (list $content)) (field "structured" (option string))))
  (type $error (variant (case "invalid-arguments" string) (case "execution-failed" string)))
  (func $list (result (list $def)) (canon lift (core func $guest "list") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
  (func $run (param "call" $call) (result (result $output (error $error)))
    (canon lift (core func $guest "call") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
  (component $tools
    (type $hints' (record (field "read-only" bool) (field "destructive" bool) (field "idempotent" bool) (field "open-world" bool)))
    (import "hints" (type $hints (eq $hints')))
    (type $def' (record (field "name" string) (field "description" string) (field "parameters" string)
      (field "output-schema" (option string)) (field "hints" $hints) (field "annotations" (list (tuple string string)))))
    (import "def" (type $def (eq $def')))
    (type $call' (record (field "id" string) (field "tool" string) (field "arguments" string)))
    (import "call" (type $call (eq $call')))
    (type $blob' (record (field "media-type" string) (field "data" (list u8))))
    (import "blob" (type $blob (eq $blob')))
    (type $content' (variant (case "text" string) (case "binary" $blob)))
    (import "content" (type $content (eq $content')))
    (type $output' (record (field "content" (list $content)) (field "structured" (option string))))
    (import "output" (type $output (eq $output')))
    (type $error' (variant (case "invalid-arguments" string) (case "execution-failed" string)))
    (import "error" (type $error (eq $error')))
    (import "list" (func $list (result (list $def))))
    (import "run" (func $run (param "call" $call) (result (result $output (error $error)))))
    (export $hintsx "hints" (type $hints'))
    (type $def'' (record (field "name" string) (field "description" string) (field "parameters" string)
      (field "output-schema" (option string)) (field "hints" $hintsx) (field "annotations" (list (tuple string string)))))
    (export $defx "tool-def" (type $def''))
    (export $callx "tool-call" (type $call'))
    (export $blobx "blob" (type $blob'))
    (type $content'' (variant (case "text" string) (case "binary" $blobx)))
    (export $contentx "content" (type $content''))
    (type $output'' (record (field "content" (list $contentx)) (field "structured" (option string))))
    (export $outputx "tool-output" (type $output''))
    (export $errorx "tool-error" (type $error'))
    (export "list-tools" (func $list) (func (result (list $defx))))
    (export "call-tool" (func $run) (func (param "call" $callx) (result (result $outputx (error $errorx))))))
  (instance $export (instantiate $tools
    (with "hints" (type $hints)) (with "def" (type $def)) (with "call" (type $call)) (with "blob" (type $blob))
    (with "content" (type $content)) (with "output" (type $output)) (with "error" (type $error))
    (with "list" (func $list)) (with "run" (func $run))))
  (export "EXPORT" (instance $export)))
"#;
