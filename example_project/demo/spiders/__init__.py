"""The spiders: demo, agent, site."""
