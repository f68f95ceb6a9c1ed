//! What users of the server may do with what is stored there, as docs/machines.md says it.

/// `$STORES`, for workers and gates.
pub(crate) const STORES: &str = r#""$KV.haft-claims.>", "$O.haft-payloads.>", "$JS.API.INFO",
    "$JS.API.STREAM.INFO.KV_haft-claims", "$JS.API.STREAM.CREATE.KV_haft-claims",
    "$JS.API.STREAM.INFO.OBJ_haft-payloads", "$JS.API.STREAM.CREATE.OBJ_haft-payloads",
    "$JS.API.STREAM.INFO.haft-journal", "$JS.API.STREAM.CREATE.haft-journal",
    "$JS.API.STREAM.MSG.GET.KV_haft-claims", "$JS.API.DIRECT.GET.KV_haft-claims.>",
    "$JS.API.STREAM.MSG.GET.OBJ_haft-payloads", "$JS.API.DIRECT.GET.OBJ_haft-payloads.>",
    "$JS.API.STREAM.PURGE.OBJ_haft-payloads", "$JS.API.CONSUMER.CREATE.OBJ_haft-payloads",
    "$JS.API.CONSUMER.*.OBJ_haft-payloads.>", "$JS.ACK.>", "$JS.FC.>""#;

/// `$STORES_OF_GATES`, for gates alone.
pub(crate) const STORES_OF_GATES: &str = r#""$KV.haft-keys.>", "$KV.haft-approvals.>", "$KV.haft-tasks.>", "$O.haft-answers.>",
    "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>",
    "$JS.API.STREAM.PURGE.OBJ_haft-answers", "$JS.API.CONSUMER.>""#;
