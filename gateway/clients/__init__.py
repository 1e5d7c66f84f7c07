"""The only room that sees protos and gRPC: schemas in, schemas out."""
