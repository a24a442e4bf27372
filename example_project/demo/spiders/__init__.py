"""The spiders of the demo project: demo, agent, gemini, site."""
