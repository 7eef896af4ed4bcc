"""The contract between a person and a server: schema, budget, mechanisms, accounting, estimators and audit."""
