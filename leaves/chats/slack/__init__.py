"""Slack: messages, threads and direct messages of an app, through `slack-sdk` and Socket Mode."""
