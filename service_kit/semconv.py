"""Every span, attribute and metric name of the product, in one place, at one schema.

OpenTelemetry renames; a rename is an edit here. The names are those of semantic conventions 1.44.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

# Resource
SERVICE_NAME: Final = "service.name"
SERVICE_NAMESPACE: Final = "service.namespace"
SERVICE_VERSION: Final = "service.version"
SERVICE_INSTANCE_ID: Final = "service.instance.id"

# General
CLIENT_ADDRESS: Final = "client.address"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# HTTP
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
HTTP_SERVER_REQUEST_DURATION: Final = "http.server.request.duration"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"

# RPC
RPC_SYSTEM_NAME: Final = "rpc.system.name"
RPC_SYSTEM_GRPC: Final = "grpc"
RPC_METHOD: Final = "rpc.method"
RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
RPC_SERVER_CALL_DURATION: Final = "rpc.server.call.duration"
RPC_CLIENT_CALL_DURATION: Final = "rpc.client.call.duration"

# Database
DB_SYSTEM_NAME: Final = "db.system.name"
DB_SYSTEM_POSTGRESQL: Final = "postgresql"
DB_NAMESPACE: Final = "db.namespace"
DB_OPERATION_NAME: Final = "db.operation.name"
DB_COLLECTION_NAME: Final = "db.collection.name"
DB_QUERY_SUMMARY: Final = "db.query.summary"
DB_OPERATION_BATCH_SIZE: Final = "db.operation.batch.size"
DB_RESPONSE_STATUS_CODE: Final = "db.response.status_code"
DB_CLIENT_OPERATION_DURATION: Final = "db.client.operation.duration"
DB_CLIENT_CONNECTION_COUNT: Final = "db.client.connection.count"
DB_CLIENT_CONNECTION_MAX: Final = "db.client.connection.max"
DB_CLIENT_CONNECTION_PENDING_REQUESTS: Final = "db.client.connection.pending_requests"
DB_CLIENT_CONNECTION_TIMEOUTS: Final = "db.client.connection.timeouts"
DB_CLIENT_CONNECTION_POOL_NAME: Final = "db.client.connection.pool.name"
DB_CLIENT_CONNECTION_STATE: Final = "db.client.connection.state"

# Messaging (job queues)
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_SYSTEM_PROCRASTINATE: Final = "procrastinate"
MESSAGING_DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGING_OPERATION_NAME: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_PROCESS_DURATION: Final = "messaging.process.duration"
MESSAGING_CLIENT_SENT_MESSAGES: Final = "messaging.client.sent.messages"

# Generative AI
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_AGENT_ID: Final = "gen_ai.agent.id"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"
GEN_AI_CLIENT_TOKEN_USAGE: Final = "gen_ai.client.token.usage"
GEN_AI_CLIENT_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
GEN_AI_EMBEDDINGS_DIMENSION_COUNT: Final = "gen_ai.embeddings.dimension.count"

# Values of gen_ai.operation.name
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
EMBEDDINGS: Final = "embeddings"
SEARCH_MEMORY: Final = "search_memory"
CREATE_MEMORY: Final = "create_memory"
UPDATE_MEMORY: Final = "update_memory"
DELETE_MEMORY: Final = "delete_memory"

# MCP
MCP_METHOD_NAME: Final = "mcp.method.name"
MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
MCP_SESSION_ID: Final = "mcp.session.id"
MCP_SERVER_OPERATION_DURATION: Final = "mcp.server.operation.duration"

# Our own
GROVE_PRINCIPAL_KIND: Final = "grove.principal.kind"
GROVE_MEMORY_ID: Final = "grove.memory.id"
GROVE_PROVIDER: Final = "grove.memory.provider"
GROVE_SESSION_ID: Final = "grove.session.id"
GROVE_RESPONSE_ID: Final = "grove.response.id"
GROVE_HARNESS_ID: Final = "grove.harness.id"
GROVE_ERROR_CODE: Final = "grove.error.code"
GROVE_BASE: Final = "grove.harness.base"
GROVE_OUTCOME: Final = "grove.turn.outcome"
GROVE_STOP_REASON: Final = "grove.turn.stop_reason"
GROVE_TURNS: Final = "grove.turns"
GROVE_TURNS_ACTIVE: Final = "grove.turns.active"
GROVE_TURN_DURATION: Final = "grove.turn.duration"
GROVE_TURN_FIRST_EVENT: Final = "grove.turn.time_to_first_event"
GROVE_QUEUE_DEPTH: Final = "grove.turns.queued"
GROVE_JOBS_PENDING: Final = "grove.jobs.pending"
GROVE_JOBS_OLDEST_AGE: Final = "grove.jobs.oldest_pending_age"
GROVE_JOBS_FAILED: Final = "grove.jobs.failed"
GROVE_JOBS_QUARANTINED: Final = "grove.jobs.quarantined"
GROVE_OBJECTS_OPERATION: Final = "grove.objects.operation"
GROVE_OBJECTS_DURATION: Final = "grove.objects.operation.duration"
GROVE_QUERY_DURATION: Final = "grove.queries.duration"
GROVE_QUERY_OUTCOME: Final = "grove.query.outcome"
GROVE_AUDIT_RECORDS: Final = "grove.audit.records"
GROVE_AUDIT_SUPPRESSED: Final = "grove.audit.suppressed"
GROVE_AUDIT_FAILED: Final = "grove.audit.failed"
GROVE_AUDIT_OUTCOME: Final = "grove.audit.outcome"
GROVE_OIDC_REFUSED: Final = "grove.oidc.refused"
GROVE_OIDC_KEYS_AGE: Final = "grove.oidc.keys.age"
GROVE_REPLICA_NODES: Final = "grove.authz.replica.nodes"
GROVE_REPLICA_LAG: Final = "grove.authz.replica.lag"
GROVE_REPLICA_FULL: Final = "grove.authz.replica.full"
GROVE_REPLICA_LOADS: Final = "grove.authz.replica.loads"
GROVE_REPLICA_REFRESHES: Final = "grove.authz.replica.refreshes"
GROVE_REPLICA_REFRESH_TIME: Final = "grove.authz.replica.refresh.time"
GROVE_REPLICA_READS: Final = "grove.authz.reads"
GROVE_REPLICA_PATH: Final = "grove.authz.path"
GROVE_RATE_LIMITED: Final = "grove.gateway.rate_limited"
GROVE_RATE_LIMIT_ALONE: Final = "grove.gateway.rate_limited_alone"
GROVE_RATE_LIMIT_NAME: Final = "grove.rate_limit.name"

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bucket boundaries of every duration histogram, in seconds."""
