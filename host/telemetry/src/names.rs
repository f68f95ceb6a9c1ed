//! All names of OpenTelemetry's semantic conventions in use, as one flat list; `.ci/steps/telemetry` compares it
//! with the registry of the conventions.

/// Attributes.
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const METHOD: &str = "mcp.method.name";
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const PROTOCOL_NAME: &str = "network.protocol.name";
pub(crate) const PROTOCOL_VERSION: &str = "mcp.protocol.version";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_ID: &str = "jsonrpc.request.id";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TRANSPORT: &str = "network.transport";

/// Metrics.
pub(crate) const CLIENT_DURATION: &str = "mcp.client.operation.duration";
pub(crate) const MODEL_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const MODEL_TOKENS: &str = "gen_ai.client.token.usage";
pub(crate) const SERVER_DURATION: &str = "mcp.server.operation.duration";

/// Names of haft, for which the conventions have none: workers and gates, and the name of an MCP server in
/// program.toml.
pub(crate) const CALLS_SENT: &str = "haft.gate.call.active";
pub(crate) const PLACES: &str = "haft.worker.place.limit";
pub(crate) const PLACES_USED: &str = "haft.worker.place.usage";
pub(crate) const SERVER_NAME: &str = "haft.mcp.server";
