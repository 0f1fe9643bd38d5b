"""The services: the posting gateway, the collection of answers, and the console above both."""
